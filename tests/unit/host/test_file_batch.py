"""A batch of file steps: in which order things reach the disk, and what becomes of the rest if one fails."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.host.base import HostError
from nodemanager.host.files import commits, staging
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.files.durable import Unsynced
from nodemanager.host.files.file_batch import FileBatch, FileTools, explain
from nodemanager.host.process import runner
from nodemanager.host.results import Result
from nodemanager.host.state.journal import Journal
from nodemanager.plan.facts import FileFact
from nodemanager.plan.resources import file_id, parse_id
from nodemanager.plan.steps import Blocked, FileStep, Noop, Observed, RemovePackage, Step
from support.descriptors import none_left_open
from support.root_tree import RootTree, config_set, failure, needs_root, outcomes

pytestmark = needs_root
APP = parse_id("service:app")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RootTree]:
    root = tmp_path / "root"
    root.mkdir()
    with none_left_open(root):
        found = RootTree(root)
        yield found
        assert found.leftovers() == []
        found.tree.close()


def batch(host: RootTree, **tools: Any) -> FileBatch:
    ticks = iter(range(1000))
    found = {"bucket": host.bucket, "clock": lambda: float(next(ticks)), **tools}
    return FileBatch(FileTools(tree=host.tree, journal=host.journal, run=runner.run, **found))


def declared(*files: dict[str, Any], subscribe: list[str] | None = None) -> Any:
    services = [{"name": "app", "ensure": "running", "subscribe_files": subscribe}] if subscribe else []
    return config_set("a", files=list(files), services=services)


LINK = {"path": "/l", "ensure": "symlink", "target": "/real"}
BELOW = {"path": "/l/x", "content": "below"}


def notes(host: RootTree, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that is filled with what happens, in its order."""
    found: list[str] = []

    def noting(owner: Any, name: str, what: Callable[..., str]) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            found.append(what(*args))
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    noting(Bucket, "keep", lambda _, place, *__: f"keep {place.path}")
    noting(Unsynced, "sync", lambda *_: "sync")
    noting(Journal, "owe", lambda _, owed: f"owe {sorted(map(str, owed))}")
    noting(staging.Staged, "commit", lambda staged, _: f"commit {staged.path}" if staged.name else "nothing")
    noting(commits, "make_directory", lambda _, step: f"make {step.path}")
    return found


async def test_a_link_that_others_are_below_of_is_kept_owed_and_on_disk_before_it_is_there(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it replaces is in the bucket before: a power cut must not cost the only copy."""
    host.at("/real").mkdir()
    steps = linked(host)
    found = notes(host, monkeypatch)
    results = await batch(host).apply(steps)
    assert found[:4] == ["keep /l", "sync", "owe ['service:app']", "commit /l"]
    assert outcomes(results)["file:/l"] == "changed"
    assert [host.bucket.read(one) for one in host.bucket.backups()] == [b"precious"]
    assert host.at("/real/x").read_text() == "below"
    assert host.journal.pending()[APP].causes == ("/l", "/l/x")


def linked(host: RootTree) -> list[Step]:
    """Return how a link takes the place of a file, and how something is put below of it."""
    [below] = host.plan(declared(BELOW, subscribe=["/l/x"]))
    host.at("/l").write_text("precious")
    [link] = host.plan(declared(LINK, subscribe=["/l"]))
    return [link, _needing(below, "/l")]


def _needing(step: Step, path: str) -> Step:
    return msgspec.structs.replace(step, needs=(file_id(path),)) if isinstance(step, FileStep) else step


@pytest.mark.parametrize("what", ["keep", "sync", "owe", "commit"])
async def test_a_link_that_cannot_be_put_in_place_early_leaves_what_was_there(
    host: RootTree, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    steps = linked(host)
    error = OSError(errno.EIO, os.strerror(errno.EIO))

    def failing(*_: Any, **__: Any) -> Any:
        raise error

    owner: Any = {"keep": Bucket, "sync": Unsynced, "owe": Journal, "commit": staging.Staged}[what]
    monkeypatch.setattr(owner, what, (lambda _: {1: error}) if what == "sync" else failing)
    results = await batch(host).apply(steps)
    monkeypatch.undo()
    assert outcomes(results) == {"file:/l": "failed", "file:/l/x": "blocked"}
    assert failure(results, "file:/l/x") == "waits for file:/l, which failed"
    assert host.at("/l").read_text() == "precious"


async def test_a_link_that_nothing_is_below_of_waits_for_the_others(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = host.plan(declared(LINK, {"path": "/y", "content": "y"}))
    found = notes(host, monkeypatch)
    await batch(host).apply(steps)
    assert [one for one in found if one.startswith(("sync", "commit"))][:3] == [
        "sync",
        "commit /l",
        "commit /y",
    ]


async def test_who_is_owed_for_a_directory_is_told_before_it_is_there(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = host.plan(declared({"path": "/d", "ensure": "directory"}, subscribe=["/d"]))
    found = notes(host, monkeypatch)
    await batch(host).apply(steps)
    assert found[:2] == ["owe ['service:app']", "make /d"]
    assert host.journal.pending()[APP].causes == ("/d",)
    other = host.plan(declared({"path": "/e", "ensure": "directory"}))
    found.clear()
    await batch(host).apply(other)
    assert found[0] == "make /e"


async def test_what_cannot_be_kept_is_not_touched_and_the_others_are(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "xy":
        host.at(f"/{name}").write_text("old")
    steps = host.plan(declared(*({"path": f"/{name}", "content": "new"} for name in "xy")))
    real = Bucket.keep

    def keep(self: Bucket, place: Any, unsynced: Unsynced) -> Any:
        if place.path == "/x":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, place, unsynced)

    monkeypatch.setattr(Bucket, "keep", keep)
    results = await batch(host).apply(steps)
    assert outcomes(results) == {"file:/x": "failed", "file:/y": "changed"}
    assert failure(results, "file:/x") == (
        "cannot change /x: No space left on device; free some space on that filesystem"
    )
    assert (host.at("/x").read_text(), host.at("/y").read_text()) == ("old", "new")


async def test_without_a_bucket_nothing_is_kept(host: RootTree) -> None:
    host.at("/x").write_text("old")
    results = await batch(host, bucket=None).apply(host.plan(declared({"path": "/x", "content": "new"})))
    assert outcomes(results) == {"file:/x": "changed"}
    assert list(host.bucket.backups()) == []


async def test_what_is_only_given_other_attributes_is_not_kept(host: RootTree) -> None:
    host.at("/x").write_text("same")
    await batch(host).apply(host.plan(declared({"path": "/x", "content": "same", "mode": "0600"})))
    assert stat.S_IMODE(host.at("/x").stat().st_mode) == 0o600
    assert list(host.bucket.backups()) == []


@pytest.mark.parametrize("target", ["nowhere", "real"])
async def test_what_is_no_file_is_not_kept(host: RootTree, target: str) -> None:
    host.at("/real").write_text("not ours to keep")
    host.at("/x").symlink_to(target)
    made = batch(host)
    assert outcomes(await made.apply(host.plan(declared({"path": "/x", "ensure": "absent"})))) == {
        "file:/x": "changed"
    }
    assert made.kept == {}


@pytest.mark.parametrize("which", ["content", "content and backup", "backup"])
async def test_what_is_not_on_disk_is_not_put_in_place(
    host: RootTree, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """New content, and what it replaces: a name for either before that is a name for nothing."""
    if "backup" in which:
        host.at("/x").write_text("old")
    declaration = {"content": "new"} if "content" in which else {"ensure": "absent"}
    steps = host.plan(declared({"path": "/x", **declaration}, subscribe=["/x"]))
    real = Unsynced.sync
    synced: list[bool] = []

    def sync(self: Unsynced) -> dict[int, OSError]:
        real(self)
        synced.append(True)
        device = host.path.stat().st_dev
        return {device: OSError(errno.EIO, os.strerror(errno.EIO))} if len(synced) == 1 else {}

    monkeypatch.setattr(Unsynced, "sync", sync)
    results = await batch(host).apply(steps)
    assert outcomes(results) == {"file:/x": "failed"}
    assert "the disk reports errors: see dmesg" in failure(results, "file:/x")
    assert host.at("/x").exists() is ("backup" in which)
    assert not host.at("/x").exists() or host.at("/x").read_text() == "old"
    assert host.journal.pending() == {}


async def test_what_may_not_survive_a_power_cut_is_told(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = host.plan(declared({"path": "/d/x", "content": "new"}, {"path": "/y", "content": "new"}))
    real = os.open

    def opening(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        where = kwargs.get("dir_fd", -1)
        if path == "." and str(Path(f"/proc/self/fd/{where}").readlink()).endswith("/d"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", opening)
    results = await batch(host).apply(steps)
    assert outcomes(results) == {"file:/d/x": "failed", "file:/y": "changed"}
    assert failure(results, "file:/d/x") == "cannot be sure that /d/x is on disk: Input/output error"


async def test_directories_that_changed_are_on_disk_at_the_end(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("d", "e"):
        host.at(f"/{name}").mkdir()
    host.at("/e/gone").write_text("")
    steps = host.plan(declared({"path": "/d/x"}, {"path": "/y"}, {"path": "/e/gone", "ensure": "absent"}))
    synced: list[list[str]] = []
    real = Unsynced.sync

    def sync(self: Unsynced) -> dict[int, OSError]:
        synced.append([str(Path(f"/proc/self/fd/{one}").readlink()) for one in self._few])
        return real(self)

    monkeypatch.setattr(Unsynced, "sync", sync)
    await batch(host).apply(steps)
    root = str(host.path)
    assert sorted(synced[-1]) == sorted([root, f"{root}/d", f"{root}/e"])


async def test_a_disk_that_fails_at_the_end_is_told_of_every_file_on_it(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = host.plan(declared({"path": "/x"}, {"path": "/y"}))
    real, calls = Unsynced.sync, []

    def sync(self: Unsynced) -> dict[int, OSError]:
        real(self)
        calls.append(1)
        return {host.path.stat().st_dev: OSError(errno.EIO, "broken")} if len(calls) == 2 else {}

    monkeypatch.setattr(Unsynced, "sync", sync)
    results = await batch(host).apply(steps)
    assert {one.message for one in results} == {
        f"cannot be sure that /{name} is on disk: broken" for name in "xy"
    }


async def test_what_nobody_could_be_told_of_is_not_changed_and_the_others_are(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = host.plan(declared({"path": "/x"}, {"path": "/y"}, subscribe=["/x"]))

    def failing(*_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Journal, "owe", failing)
    results = await batch(host).apply(steps)
    assert outcomes(results) == {"file:/x": "failed", "file:/y": "changed"}
    assert not host.at("/x").exists()


async def test_nothing_is_owed_for_what_stayed_as_it_was(
    host: RootTree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    steps = host.plan(declared({"path": "/x"}, {"path": "/y"}, subscribe=["/x", "/y"]))
    real = staging.Staged.commit

    def commit(self: staging.Staged, tree: Any) -> None:
        if self.path == "/x":
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        real(self, tree)

    monkeypatch.setattr(staging.Staged, "commit", commit)
    results = await batch(host).apply(steps)
    assert outcomes(results) == {"file:/x": "failed", "file:/y": "changed"}
    assert host.journal.pending()[APP].causes == ("/y",)

    def failing(*_: Any) -> None:
        raise OSError("cannot retract")

    monkeypatch.setattr(Journal, "retract", failing)
    await batch(host).apply(host.plan(declared({"path": "/x"}, subscribe=["/x"])))
    assert "cannot retract" in caplog.text


async def test_attributes_that_could_not_all_be_set_are_owed_still(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of them may have been: what was only half changed has been changed."""
    host.at("/x").write_text("")
    steps = host.plan(declared({"path": "/x", "mode": "0600"}, subscribe=["/x"]))

    def failing(*_: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchmod", failing)
    monkeypatch.setattr(Journal, "_save", lambda self, entries: setattr(self, "_entries", entries))
    assert outcomes(await batch(host).apply(steps)) == {"file:/x": "failed"}
    assert host.journal.pending()[APP].causes == ("/x",)


@pytest.mark.parametrize("policy", ["", "abort"])
async def test_only_an_abort_holds_back_the_rest(host: RootTree, policy: str) -> None:
    check = {"command": "/bin/false", **({"onFailure": policy} if policy else {})}
    made = batch(host)
    results = await made.apply(host.plan(declared({"path": "/a", "validate": check}, {"path": "/b"})))
    assert outcomes(results) == {"file:/a": "failed", "file:/b": "blocked" if policy else "changed"}
    assert made.aborted == ({"a"} if policy else set())
    if policy:
        assert failure(results, "file:/b") == ("ConfigSet a was aborted by a validation that failed before")


async def test_what_two_sets_declare_is_held_back_when_both_are_aborted(host: RootTree) -> None:
    check = {"command": "/bin/false", "onFailure": "abort"}
    shared = {"path": "/z", "content": "z"}
    one = config_set("a", files=[{"path": "/a", "validate": check}, shared])
    two = config_set("b", files=[{"path": "/b", "validate": check}, shared])
    assert outcomes(await batch(host).apply(host.plan(one, two)))["file:/z"] == "blocked"
    host.at("/a").unlink(missing_ok=True)
    other = config_set("b", files=[shared])
    assert outcomes(await batch(host).apply(host.plan(one, other)))["file:/z"] == "changed"


async def test_an_interrupted_batch_leaves_nothing_behind(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(BaseException):
        pass

    home = host.at("/hers")
    home.mkdir()
    os.chown(home, 1000, 1000)
    steps = host.plan(declared({"path": "/x"}, {"path": "/hers/x"}, {"path": "/y"}))
    real, calls = staging.stage_file, []

    def stage(*args: Any) -> staging.Staged:
        calls.append(1)
        if len(calls) == 3:
            raise Stop
        return real(*args)

    monkeypatch.setattr(staging, "stage_file", stage)
    with pytest.raises(Stop):
        await batch(host).apply(steps)
    assert host.leftovers() == []
    assert list(home.iterdir()) == []


async def test_a_validation_that_is_interrupted_leaves_nothing_behind(host: RootTree) -> None:
    class Stop(BaseException):
        pass

    async def run(*_: Any, **__: Any) -> Any:
        raise Stop

    steps = host.plan(declared({"path": "/x", "validate": {"command": "/bin/true"}}))
    found = FileBatch(FileTools(host.tree, host.bucket, host.journal, run))
    with pytest.raises(Stop):
        await found.apply(steps)
    assert host.leftovers() == []


async def test_idle_steps_are_told_as_what_they_are_and_no_others_are_taken(host: RootTree) -> None:
    idle: dict[str, Any] = {"id": file_id("/x"), "sources": ("a",), "reason": "because"}
    results = await batch(host).apply([Noop(**idle), Blocked(**idle)])
    assert [str(one.outcome) for one in results] == ["unchanged", "blocked"]
    package = RemovePackage(id=parse_id("package:x"), sources=("a",), reason="", name="x")
    with pytest.raises(TypeError, match="cannot do RemovePackage to files"):
        await batch(host).apply([package])
    with pytest.raises(TypeError, match="cannot do RemovePackage to files"):
        await batch(host).apply([Observed(**idle, would=package)])


@pytest.mark.parametrize("what", [{"ensure": "directory"}, {"ensure": "symlink", "target": "/t"}])
async def test_what_is_below_of_what_is_left_alone_waits_for_it(host: RootTree, what: dict[str, str]) -> None:
    [would] = host.plan(declared({"path": "/d", **what}))
    [below] = host.plan(declared({"path": "/d/x"}))
    seen = Observed(id=would.id, sources=("a",), reason="is not there", would=would)
    results = await batch(host).apply([seen, _needing(below, "/d")])
    assert outcomes(results) == {"file:/d": "observed", "file:/d/x": "blocked"}
    assert failure(results, "file:/d/x").startswith("waits for file:/d, which is left alone as its drift")
    assert not host.at("/d").exists()


async def test_a_file_that_is_left_alone_is_shown_and_keeps_nothing_back(host: RootTree) -> None:
    host.at("/x").write_text("theirs\n")
    [would] = host.plan(declared({"path": "/x", "content": "ours\n"}))
    [other] = host.plan(declared({"path": "/y"}))
    seen = Observed(id=would.id, sources=("a",), reason="content differs", would=would)
    results = await batch(host).apply([seen, _needing(other, "/x")])
    assert outcomes(results) == {"file:/x": "observed", "file:/y": "changed"}
    [told] = [one for one in results if str(one.id) == "file:/x"]
    assert told.message.startswith("content differs\n")
    assert "theirs" in told.message
    assert told.found
    assert told.wanted
    assert told.found != told.wanted
    assert told.mark == f"content differs {told.found}"


async def test_what_is_published_of_a_file_is_what_everybody_may_read(host: RootTree) -> None:
    for name, mode in (("public", 0o644), ("private", 0o600)):
        host.at(f"/{name}").write_text(f"old {name}")
        host.at(f"/{name}").chmod(mode)
    made = batch(host)
    results = await made.apply(
        host.plan(declared({"path": "/public", "content": "new"}, {"path": "/private", "content": "new"}))
    )
    assert set(made.kept) == {"/public"}
    told: dict[str, Result] = {str(one.id): one for one in results}
    assert told["file:/public"].found == made.kept["/public"]
    assert told["file:/public"].wanted
    assert not told["file:/private"].found
    assert not told["file:/private"].wanted


async def test_how_long_it_took_is_told(host: RootTree) -> None:
    bad = {"path": "/a", "validate": {"command": "/bin/false"}}
    results = await batch(host).apply(host.plan(declared(bad, {"path": "/b"}, {"path": "/c"})))
    # The clock is asked at the beginning and at the end of each, and goes on by one.
    assert {str(one.id): one.seconds for one in results} == {"file:/a": 1.0, "file:/b": 2.0, "file:/c": 2.0}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EIO, "x"), "cannot change /x: Input/output error; the disk reports errors: see dmesg"),
        (OSError(errno.ENOENT, "x"), "cannot change /x: No such file or directory"),
        (OSError("without a number"), "cannot change /x: without a number"),
        (HostError("cannot do it"), "cannot do it"),
        (ValueError("bad value"), "bad value"),
    ],
)
def test_what_is_said_of_a_failure(error: Exception, said: str) -> None:
    step = FileStep(id=file_id("/x"), sources=("a",), reason="", path="/x", before=FileFact())
    assert explain(step, error) == said


def test_the_cause_of_a_failure_of_ours_says_what_to_do() -> None:
    step = FileStep(id=file_id("/x"), sources=("a",), reason="", path="/x", before=FileFact())
    error = HostError("cannot do it")
    error.__cause__ = OSError(errno.EROFS, "x")
    assert explain(step, error).startswith("cannot do it; the filesystem is mounted read-only")
