"""Directories that others may write into: nothing outside of them is touched, and nobody gains by it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from nodemanager.host.files.file_batch import FileBatch, FileTools
from nodemanager.host.process import runner
from nodemanager.plan.steps import RemovePath
from support.root_tree import RootTree, config_set, failure, needs_root, outcomes

pytestmark = needs_root
ROUNDS = int(os.environ.get("NODEMANAGER_RACE_ROUNDS", "150"))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RootTree]:
    root = tmp_path / "root"
    root.mkdir()
    found = RootTree(root)
    yield found
    assert found.leftovers() == []
    found.tree.close()


def home_of_eve(host: RootTree) -> Path:
    home = host.at("/home/eve")
    home.mkdir(parents=True)
    os.chown(home, 1000, 1000)
    return home


async def test_a_link_of_ours_in_a_directory_of_somebody_else_is_not_followed(host: RootTree) -> None:
    """Its owner may have renamed it: /home/eve/x, which we made, is now /home/eve/.config."""
    host.at("/etc").mkdir()
    home_of_eve(host).joinpath(".config").symlink_to("/etc")
    results = await host.converge(config_set("a", files=[{"path": "/home/eve/.config/cron"}]))
    assert "which is not followed" in failure(results, "file:/home/eve/.config/cron")
    assert list(host.at("/etc").iterdir()) == []


@pytest.mark.parametrize(("mode", "followed"), [(0o1777, True), (0o777, False), (0o775, False)])
async def test_a_link_of_ours_where_others_write_is_followed_only_if_they_cannot_move_it(
    host: RootTree, mode: int, followed: bool
) -> None:
    host.at("/etc").mkdir()
    host.at("/tmp").mkdir()
    host.at("/tmp").chmod(mode)
    host.at("/tmp/l").symlink_to("/etc")
    results = await host.converge(config_set("a", files=[{"path": "/tmp/l/x"}]))
    assert outcomes(results)["file:/tmp/l/x"] == ("changed" if followed else "blocked")
    assert host.at("/etc/x").exists() == followed


async def test_a_second_name_in_a_directory_that_all_may_write_into_is_replaced_and_not_changed(
    host: RootTree,
) -> None:
    shadow = host.at("/shadow")
    shadow.write_text("root:secret")
    shadow.chmod(0o600)
    host.at("/tmp").mkdir()
    host.at("/tmp").chmod(0o1777)
    os.link(shadow, host.at("/tmp/x"))
    declared = {"path": "/tmp/x", "content": "root:secret", "owner": "1000", "mode": "0666"}
    results = await host.converge(config_set("a", files=[declared]))
    assert outcomes(results) == {"file:/tmp/x": "changed"}
    assert not shadow.samefile(host.at("/tmp/x"))
    assert (shadow.stat().st_uid, stat.S_IMODE(shadow.stat().st_mode)) == (0, 0o600)


async def test_content_that_was_exchanged_meanwhile_gets_no_powers(host: RootTree) -> None:
    tool = home_of_eve(host) / "tool"
    tool.write_text("good")
    os.chown(tool, 1000, 1000)
    steps = host.plan(config_set("a", files=[{"path": "/home/eve/tool", "content": "good", "mode": "04755"}]))
    tool.write_text("evil")
    evil = tool.stat().st_ino
    assert outcomes(await host.apply(steps)) == {"file:/home/eve/tool": "changed"}
    assert tool.read_text() == "good"
    assert (tool.stat().st_uid, stat.S_IMODE(tool.stat().st_mode)) == (0, 0o4755)
    assert tool.stat().st_ino != evil


async def test_content_of_root_s_that_was_exchanged_meanwhile_gets_no_powers(host: RootTree) -> None:
    tool = host.at("/tool")
    tool.write_text("good")
    steps = host.plan(config_set("a", files=[{"path": "/tool", "content": "good", "mode": "04755"}]))
    tool.write_text("evil")
    results = await host.apply(steps)
    assert "its content was changed meanwhile" in failure(results, "file:/tool")
    assert not tool.stat().st_mode & stat.S_ISUID


async def test_what_is_no_longer_of_its_kind_is_not_changed(host: RootTree) -> None:
    folder = home_of_eve(host) / "d"
    folder.mkdir()
    steps = host.plan(
        config_set("a", files=[{"path": "/home/eve/d", "ensure": "directory", "owner": "7", "mode": "04777"}])
    )
    folder.rmdir()
    folder.write_text("a file now")
    results = await host.apply(steps)
    assert "it is no empty directory, so it is neither changed nor replaced" in failure(
        results, "file:/home/eve/d"
    )
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o7000) == (0, 0)


async def test_a_directory_is_exchanged_for_a_link_again_and_again(host: RootTree, tmp_path: Path) -> None:
    """Whoever wins the race, nothing is ever written, removed or given away where the link leads."""
    outside = host.at("/outside")
    (outside / "sub").mkdir(parents=True)
    for name in ("x", "gone", "sub/y"):
        (outside / name).write_text("untouched")
    before = sorted((str(one), one.lstat()[:6]) for one in outside.rglob("*"))
    home, stop = home_of_eve(host), threading.Event()
    (home / "d").mkdir()

    def flip() -> None:
        place, link, away = home / "d", home / "link", home / "away"
        deeds: list[Callable[[], object]] = [
            lambda: link.symlink_to("/outside"),
            lambda: os.lchown(link, 1000, 1000),
            lambda: place.rename(away),
            lambda: link.rename(place),
            place.unlink,
            lambda: away.rename(place),
            lambda: shutil.rmtree(away) if place.exists() and away.exists() else None,
        ]
        while not stop.is_set():
            for deed in deeds:
                with contextlib.suppress(OSError):  # the agent makes the directory anew, too
                    deed()

    flipping = threading.Thread(target=flip)
    flipping.start()
    seen: set[str] = set()
    try:
        for number in range(ROUNDS):
            files = [
                {"path": "/home/eve/d/x", "content": f"{number}", "owner": "1000", "mode": "0666"},
                {"path": "/home/eve/d/gone", "ensure": "absent"},
                {"path": "/home/eve/d/sub", "ensure": "directory", "owner": "1000", "purge": True},
                {"path": "/ok", "content": f"{number}"},
            ]
            results = outcomes(await host.converge(config_set("a", files=files)))
            assert results["file:/ok"] == "changed"
            seen.add(results["file:/home/eve/d/x"])
    finally:
        stop.set()
        flipping.join()
    assert sorted((str(one), one.lstat()[:6]) for one in outside.rglob("*")) == before
    assert {one.read_text() for one in outside.rglob("*") if one.is_file()} == {"untouched"}
    assert "changed" in seen
    for left in host.leftovers():  # in a directory that was moved away while we wrote into it
        assert left.is_relative_to(home)
        left.unlink()


async def test_purge_survives_every_name_that_a_file_can_have(host: RootTree) -> None:
    folder = host.at("/etc/d")
    folder.mkdir(parents=True)
    names = [b"\xff\xfe", b"a\nb", b"\x1b[31m", b"\xe2\x80\xae", b"n" * 255, " ü".encode(), b"-rf"]
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(name)
    (folder / "link").symlink_to(os.fsdecode(b"\xff"))
    declared = config_set(
        "a",
        files=[
            {"path": "/etc/d", "ensure": "directory", "purge": True},
            {"path": "/etc/d/link", "ensure": "symlink", "target": "x"},
        ],
        services=[{"name": "app", "ensure": "running", "subscribe_files": ["/etc/d"]}],
    )
    batch = FileBatch(FileTools(host.tree, host.bucket, host.journal, runner.run))
    results = await batch.apply(host.plan(declared))
    assert set(outcomes(results).values()) == {"unchanged", "changed"}
    assert [path.name for path in folder.iterdir()] == ["link"]
    said = msgspec.json.encode([[str(one.id), one.message, batch.kept] for one in results]).decode()
    assert "file:/etc/d/\\xff\\xfe" in [one[0] for one in json.loads(said)]
    assert "file:/etc/d/a\\nb" in [one[0] for one in json.loads(said)]
    assert {host.bucket.read(one) for one in host.bucket.backups()} == set(names)
    assert host.bucket.find(os.fsdecode(b"/etc/d/\xff\xfe")).meta.path == "/etc/d/\\xff\\xfe"
    assert len(next(iter(host.journal.pending().values())).causes) == len(names)


async def test_no_digest_of_private_content_is_published(host: RootTree) -> None:
    """Every host may read the status of every other one, and a password is guessed by its digest."""
    for name, mode in (("private", 0o600), ("group", 0o640), ("public", 0o644)):
        path = host.at(f"/etc/{name}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"hunter2 {name}")
        path.chmod(mode)
    files = [{"path": f"/etc/{name}", "ensure": "absent"} for name in ("private", "group", "public")]
    batch = FileBatch(FileTools(host.tree, host.bucket, host.journal, runner.run))
    await batch.apply(host.plan(config_set("a", files=files)))
    assert set(batch.kept) == {"/etc/public"}
    assert {one.meta.path for one in host.bucket.backups()} == {
        f"/etc/{name}" for name in ("private", "group", "public")
    }


async def test_a_file_that_appears_after_the_plan_is_kept_when_it_is_replaced(host: RootTree) -> None:
    steps = host.plan(config_set("a", files=[{"path": "/x", "content": "new"}]))
    host.at("/x").write_text("somebody was faster")
    await host.apply(steps)
    assert [host.bucket.read(one) for one in host.bucket.backups()] == [b"somebody was faster"]


async def test_a_file_that_grows_while_it_is_kept(host: RootTree, monkeypatch: pytest.MonkeyPatch) -> None:
    log = host.at("/log")
    log.write_bytes(b"x" * 100)
    steps = host.plan(config_set("a", files=[{"path": "/log", "ensure": "absent"}]))
    assert isinstance(steps[0], RemovePath)
    real = os.pread

    def growing(descriptor: int, size: int, offset: int) -> bytes:
        with log.open("ab") as file:
            file.write(b"y" * 1000)
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", growing)
    await host.apply(steps)
    monkeypatch.undo()
    (kept,) = host.bucket.backups()
    assert host.bucket.read(kept) == b"x" * 100


async def test_a_damaged_backup_is_made_anew_and_hides_no_other(host: RootTree) -> None:
    """A power cut can leave a file that has its name and none of its content."""
    for _ in range(2):
        host.at("/x").write_text("precious")
        await host.converge(config_set("a", files=[{"path": "/x", "content": "new"}]))
        (blob,) = [one for one in host.at("/var/lib/nodemanager/filebucket").rglob("*")
                   if one.is_file() and not one.suffix]  # fmt: skip
        assert host.bucket.read(host.bucket.find("/x")) == b"precious"
        blob.write_bytes(b"")
    blob.with_name(f"{blob.name}.000000000000.meta").write_bytes(b"")
    assert len(list(host.bucket.backups())) == 1
