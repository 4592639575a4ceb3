"""Drift on a real folder: heard of, put back at once, recorded once."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.passes.converge import Converger
from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.base import ServiceKey
from nodemanager.host.results import Result
from nodemanager.plan.resources import file_id
from support.memory_host import DOWN
from support.realtime import Kept
from support.root_tree import config_set, needs_root

pytestmark = needs_root


def tree(folder: Path, **more: Any) -> ConfigSet:
    """A purged directory with a file, a file, and a link."""
    return config_set(
        "tree",
        files=[
            {"path": f"{folder}/motd", "content": "hello\n", "mode": "0644"},
            {"path": f"{folder}/conf.d", "ensure": "directory", "purge": True},
            {"path": f"{folder}/conf.d/a", "content": "a\n"},
            {"path": f"{folder}/link", "ensure": "symlink", "target": "motd"},
        ],
        **more,
    )


def is_whole(folder: Path) -> bool:
    """Tell whether everything is as declared."""
    try:
        return (
            (folder / "motd").read_text() == "hello\n"
            and not (folder / "motd").is_symlink()
            and (folder / "motd").stat().st_mode & 0o7777 == 0o644
            and (folder / "motd").stat().st_uid == 0
            and [one.name for one in (folder / "conf.d").iterdir()] == ["a"]
            and (folder / "conf.d/a").read_text() == "a\n"
            and (folder / "link").readlink() == Path("motd")
        )
    except OSError:
        return False


def swap(path: Path, target: str) -> None:
    """Put a link in the place of a path, as `ln -sfn` does."""
    (path.parent / "swap").symlink_to(target)
    (path.parent / "swap").rename(path)


def replace_directory(path: Path) -> None:
    """Move a directory away and put an empty one in its place."""
    path.rename(path.parent / "moved")
    path.mkdir()


def remove_directory(path: Path) -> None:
    """Remove a directory in one step: entry by entry, the first may be back before the last is gone."""
    shutil.rmtree(path.rename(path.parent / "moved"))


DRIFTS: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "content": (lambda at: (at / "motd").write_text("bye\n"), {"/motd"}),
    "same size": (lambda at: (at / "motd").write_text("hullo\n"), {"/motd"}),
    "mode": (lambda at: (at / "motd").chmod(0o666), {"/motd"}),
    "owner": (lambda at: os.chown(at / "motd", 1, 1), {"/motd"}),
    "removed": (lambda at: (at / "motd").unlink(), {"/motd"}),
    "a link instead": (lambda at: swap(at / "motd", "/etc/passwd"), {"/motd"}),
    "retargeted": (lambda at: swap(at / "link", "/etc"), {"/link"}),
    "a stray entry": (lambda at: (at / "conf.d/stray").write_text("x"), {"/conf.d/stray"}),
    "directory removed": (lambda at: remove_directory(at / "conf.d"), {"/conf.d", "/conf.d/a"}),
    "directory replaced": (lambda at: replace_directory(at / "conf.d"), {"/conf.d/a"}),
}


@pytest.mark.parametrize("name", DRIFTS)
async def test_a_drift_is_put_back_and_recorded_once(tmp_path: Path, name: str) -> None:
    harm, drifted = DRIFTS[name]
    async with Kept(tmp_path) as kept:
        await kept.converge(tree(tmp_path))
        await quiet(
            kept
        )  # it looks at what it wrote itself; half of a harm seen then is repaired in other steps
        assert kept.drifts.records == []
        harm(tmp_path)
        await kept.until(lambda: is_whole(tmp_path))
        await quiet(kept)
        assert {one for one, _ in kept.outcomes()} == drifted
        assert set(kept.outcomes()) == {(one, "repaired") for one in drifted}
        assert len(kept.outcomes()) == len(drifted)  # our own writes are heard of, too, and are no drift
        assert all(one.took for one in kept.drifts.records)


async def quiet(kept: Kept) -> None:
    """Wait until everything that was heard of is dealt with: a change after it is."""
    probe = kept.folder / "motd"
    before = len(kept.told)
    probe.chmod(0o600)
    await kept.until(lambda: len(kept.told) > before and is_whole(kept.folder))
    for one in kept.drifts.records[::-1]:
        if one.resource == f"file:{probe}":
            kept.drifts.records.remove(one)
            break


async def test_a_record_tells_both_digests_of_what_everybody_may_read(tmp_path: Path) -> None:
    async with Kept(tmp_path) as kept:
        await kept.converge(tree(tmp_path))
        (tmp_path / "motd").write_text("bye\n")
        await kept.until(lambda: kept.drifts.records)
        (record,) = kept.drifts.records
        assert (record.found, record.wanted, record.message) == (
            hashlib.sha256(b"bye\n").hexdigest(),
            hashlib.sha256(b"hello\n").hexdigest(),
            "content differs",
        )
        assert record.by == ""


async def test_nothing_is_told_of_the_content_of_private_files(tmp_path: Path) -> None:
    secret = config_set("s", files=[{"path": f"{tmp_path}/key", "content": "one", "mode": "0600"}])
    async with Kept(tmp_path) as kept:
        await kept.converge(secret)
        (tmp_path / "key").write_text("two")
        await kept.until(lambda: kept.drifts.records)
        (record,) = kept.drifts.records
        assert (record.found, record.wanted, record.message) == ("", "", "content differs")


async def test_what_was_removed_from_a_purged_directory_can_be_restored(tmp_path: Path) -> None:
    async with Kept(tmp_path) as kept:
        await kept.converge(tree(tmp_path))
        (tmp_path / "conf.d/stray").write_text("precious")
        await kept.until(lambda: kept.drifts.records and is_whole(tmp_path))
        assert hashlib.sha256(b"precious").hexdigest() in kept.host.converger.records.replaced.values()


async def test_subscribers_of_a_file_that_was_put_back_are_restarted_once(tmp_path: Path) -> None:
    declared = tree(
        tmp_path,
        services=[{"name": "nginx", "ensure": "running", "subscribe_files": [f"{tmp_path}/motd"]}],
        executions=[
            {
                "command": "sh",
                "args": ["-c", f"echo ran >> {tmp_path}/ran"],
                "subscribe_files": [f"{tmp_path}/motd"],
            }
        ],
    )
    async with Kept(tmp_path) as kept:
        await kept.converge(declared)
        kept.host.services.calls.clear()
        (tmp_path / "motd").write_text("bye\n")
        await kept.until(lambda: len(kept.told) >= 3)
        await quiet(kept)
        assert kept.host.services.calls == ["restart nginx"] * 2  # of the drift, and of the probe
        assert (tmp_path / "ran").read_text() == "ran\n" * 3
        assert kept.host.journal.pending() == {}
        assert kept.outcomes() == [("/motd", "repaired")]  # a restart is no drift


async def test_no_tool_is_asked_that_the_repair_does_not_need(tmp_path: Path) -> None:
    declared = tree(tmp_path, packages=[{"name": "jq"}], services=[{"name": "app", "ensure": "stopped"}])
    async with Kept(tmp_path) as kept:
        await kept.converge(declared)
        kept.host.packages.calls.clear()
        kept.host.packages.have.clear()
        kept.host.services.facts.clear()
        (tmp_path / "motd").unlink()
        await kept.until(lambda: kept.drifts.records)
        assert kept.host.packages.calls == []
        assert [str(one.id) for one in kept.told] == [f"file:{tmp_path}/motd"]


async def test_a_new_declaration_is_news_and_the_old_content_never_comes_back(tmp_path: Path) -> None:
    path = f"{tmp_path}/motd"
    async with Kept(tmp_path) as kept:
        for number in range(20):
            await kept.converge(config_set("s", files=[{"path": path, "content": f"{number}\n"}]))
            assert (tmp_path / "motd").read_text() == f"{number}\n"
        assert kept.drifts.records == []


async def test_a_repair_waits_for_the_stage_of_a_pass_and_not_for_the_pass(tmp_path: Path) -> None:
    async with Kept(tmp_path) as kept:
        declared = tree(tmp_path, services=[{"name": "app", "ensure": "running"}])
        await kept.converge(declared)
        host_lock, found = kept.host.converger.host_lock, []
        start = kept.host.services.start

        async def stop_the_world(key: ServiceKey) -> None:
            """Change a file while a service is being started, and see that nobody touches it meanwhile."""
            (tmp_path / "motd").write_text("bye\n")
            assert host_lock.locked()
            await start(key)
            found.append((tmp_path / "motd").read_text())

        kept.host.services.start = stop_the_world  # type: ignore[method-assign]
        kept.host.services.facts[ServiceKey("app")] = DOWN
        await kept.converge(declared)
        await kept.until(lambda: is_whole(tmp_path) and len(kept.outcomes()) == len(("file", "service")))
        assert found == ["bye\n"]
        assert sorted(kept.outcomes()) == [("/motd", "repaired"), ("service:app", "repaired")]


async def test_a_directory_that_became_a_link_is_said_and_left_to_people(tmp_path: Path) -> None:
    async with Kept(tmp_path) as kept:
        await kept.converge(tree(tmp_path))
        shutil.rmtree(tmp_path / "conf.d")
        (tmp_path / "conf.d").symlink_to("/etc")
        await kept.until(lambda: ("/conf.d", "failed") in kept.outcomes())
        assert kept.host_state.backoff.wait(file_id(f"{tmp_path}/conf.d"), 0) > 0
        (tmp_path / "conf.d").unlink()
        await kept.converge(tree(tmp_path))
        assert is_whole(tmp_path)


async def test_a_record_names_who_it_was(tmp_path: Path) -> None:
    async with Kept(tmp_path) as kept:
        await kept.converge(tree(tmp_path))
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", f"echo bye > {tmp_path}/motd; read _", stdin=asyncio.subprocess.PIPE
        )
        await kept.until(lambda: kept.drifts.records)
        assert kept.drifts.records[0].by.startswith(f"sh[{process.pid}], uid 0")
        await process.communicate(b"\n")


async def test_what_is_watched_before_a_pass_is_not_looked_at_again_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    repair = Converger.repair

    async def counted(self: Converger, *given: Any) -> list[Result]:
        nonlocal looks
        looks += 1
        return await repair(self, *given)

    monkeypatch.setattr(Converger, "repair", counted)
    async with Kept(tmp_path) as kept:
        await kept.converge(tree(tmp_path))
        await kept.until(lambda: True)
    async with Kept(tmp_path) as kept:
        before = looks
        await kept.loop.follow_ahead(kept.desired_state(tree(tmp_path)).desired)
        assert await kept.converge(tree(tmp_path)) == []
        await asyncio.sleep(0.05)
        assert looks == before
        (tmp_path / "motd").write_text("bye\n")
        await kept.until(lambda: is_whole(tmp_path))
        assert looks > before


async def test_what_changes_between_the_watch_and_the_look_is_put_back(tmp_path: Path) -> None:
    async with Kept(tmp_path) as kept:
        await kept.converge(tree(tmp_path))
    async with Kept(tmp_path) as kept:
        await kept.loop.follow_ahead(kept.desired_state(tree(tmp_path)).desired)
        (tmp_path / "motd").write_text("bye\n")
        await kept.converge(tree(tmp_path))
        assert is_whole(tmp_path)
