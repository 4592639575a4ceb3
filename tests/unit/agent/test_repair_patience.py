"""When nothing is repaired at once: fights, failures, storms, and what is to be left alone."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.agent.drift.repair_backoff import LIMIT
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.report import status
from nodemanager.agent.report.status import Pass
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNodeStatus
from nodemanager.host.base import ServiceKey
from nodemanager.host.results import Result
from nodemanager.plan.resources import ResourceId, file_id
from support import virtual_time
from support.fake_tools import MemoryLocks
from support.memory_host import DOWN
from support.realtime import Hints, Kept
from support.root_tree import config_set, needs_root

pytestmark = needs_root
APP = ResourceId("service", "app")


def motd(folder: Path, content: str = "hello\n", **more: Any) -> ConfigSet:
    return config_set("motd", files=[{"path": f"{folder}/motd", "content": content, **more}])


def held(hints: Hints, folder: Path) -> Kept:
    """A host whose watch says what the test says, on the clock of the loop."""
    kept = Kept(folder, hints, asyncio.get_running_loop().time)
    kept.seconds = 3600.0
    return kept


def conditions(kept: Kept) -> dict[str, tuple[str, str, str]]:
    """Return what the status says now, as (status, reason, message) by type."""
    done = Pass(
        [], {}, list(kept.host_state.results.values()), None, contested=kept.host_state.backoff.contested(),
        shortfalls=kept.host_state.shortfalls,
    )  # fmt: skip
    found = status.of_pass(ManagedNodeStatus(), done, kept.host_state.now(), 1).conditions
    return {one.type: (one.status, one.reason, one.message) for one in found}


@virtual_time.test
async def test_a_fight_slows_down_and_the_rest_does_not(tmp_path: Path) -> None:
    hints, other = Hints(), tmp_path / "other"
    clock = asyncio.get_running_loop().time
    async with held(hints, tmp_path) as kept:
        declared = motd(tmp_path)
        await kept.converge(declared, config_set("other", files=[{"path": str(other), "content": "o"}]))
        times = []
        for number in range(LIMIT + 4):
            (tmp_path / "motd").write_text(f"mine {number}\n")
            hints.tell(file_id(f"{tmp_path}/motd"))
            await kept.until(lambda: (tmp_path / "motd").read_text() == "hello\n")
            times.append(clock())
        waits = [round(after - before) for before, after in itertools.pairwise(times)]
        assert waits == [0] * (LIMIT - 1) + [1, 2, 4, 8]
        found = conditions(kept)
        assert found["Contested"][:2] == ("True", "Contested")
        assert found["Drifted"][:2] == ("True", "Contested")
        assert found["Ready"][0] == "True"
        assert f"somebody keeps changing file:{tmp_path}/motd (found " in found["Contested"][2]
        before = clock()
        other.write_text("x")
        hints.tell(file_id(str(other)))
        await kept.until(lambda: other.read_text() == "o")
        assert clock() - before < 0.5
        reports = len(kept.reports)
        await kept.until(lambda: len(kept.reports) > reports and not kept.host_state.backoff.contested())
        assert conditions(kept)["Contested"][:2] == ("False", "NotContested")
        assert len(kept.outcomes()) == LIMIT + 5
        assert kept.told_contested == [f"file:{tmp_path}/motd"]  # warned of once


@virtual_time.test
async def test_what_is_below_of_a_touched_directory_and_has_to_wait_is_looked_at_later(
    tmp_path: Path,
) -> None:
    hints, folder = Hints(), tmp_path / "d"
    files = [{"path": str(folder), "ensure": "directory"}, {"path": f"{folder}/a", "content": "a"}]
    async with held(hints, tmp_path) as kept:
        await kept.converge(config_set("d", files=files))
        for _ in range(LIMIT):
            (folder / "a").write_text("mine")
            hints.tell(file_id(f"{folder}/a"))
            await kept.until(lambda: (folder / "a").read_text() == "a")
        (folder / "a").unlink()
        hints.tell(file_id(str(folder)))
        await kept.until((folder / "a").exists)


@virtual_time.test
async def test_what_cannot_be_put_back_is_tried_more_and_more_rarely_until_it_can(tmp_path: Path) -> None:
    hints = Hints()
    async with held(hints, tmp_path) as kept:
        await kept.converge(config_set("s", services=[{"name": "app", "ensure": "running"}]))
        services = kept.host.services
        services.calls.clear()
        services.broken = {"app"}
        services.facts[ServiceKey("app")] = DOWN
        began = asyncio.get_running_loop().time()
        hints.tell(APP)
        await kept.until(lambda: len(services.calls) == 6)
        assert asyncio.get_running_loop().time() - began == pytest.approx(1 + 2 + 4 + 8 + 16, abs=0.5)
        hints.tell(APP)  # being touched again is no reason to be quicker
        assert conditions(kept)["Drifted"][:2] == ("True", "NotRepaired")
        assert conditions(kept)["Ready"][0] == "False"
        services.broken = set()
        await kept.until(lambda: services.facts[ServiceKey("app")].running)
        assert conditions(kept)["Drifted"][:2] == ("False", "NoDrift")
        assert kept.outcomes() == [("service:app", "failed"), ("service:app", "repaired")]  # each once


@virtual_time.test
@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), RuntimeError("no thread")])
async def test_a_repair_that_breaks_is_tried_again_and_the_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    hints, repair, broken = Hints(), Converger.repair, [error, error]

    async def breaking(*args: Any) -> list[Result]:
        if broken:
            raise broken.pop()
        return await repair(*args)

    monkeypatch.setattr(Converger, "repair", breaking)
    async with held(hints, tmp_path) as kept:
        await kept.converge(motd(tmp_path))
        (tmp_path / "motd").write_text("bye\n")
        began = asyncio.get_running_loop().time()
        hints.tell(file_id(f"{tmp_path}/motd"))
        await kept.until(lambda: (tmp_path / "motd").read_text() == "hello\n")
        assert asyncio.get_running_loop().time() - began == pytest.approx(1 + 2, abs=0.5)
        assert kept.outcomes() == [("/motd", "failed"), ("/motd", "repaired")]


@virtual_time.test
async def test_a_repair_does_not_wait_for_a_lock_that_another_host_holds(tmp_path: Path) -> None:
    hints, no_wait = Hints(), MemoryLocks()
    no_wait.busy = {"web"}
    unit = {
        "name": "nginx",
        "ensure": "running",
        "lock_group": "web",
        "subscribe_files": [f"{tmp_path}/motd"],
    }
    async with held(hints, tmp_path) as kept:
        await kept.converge(motd(tmp_path), config_set("s", services=[unit]))
        kept.host.converger.no_wait.locks = no_wait
        kept.host.locks.held.clear()
        (tmp_path / "motd").write_text("bye\n")
        hints.tell(file_id(f"{tmp_path}/motd"))
        await kept.until(lambda: "service:nginx" in {str(one.id) for one in kept.told})
        assert kept.host.locks.held == []  # those are for passes, which wait
        assert list(kept.host.journal.pending()) == [ResourceId("service", "nginx")]  # owed still
        no_wait.busy = set()
        await kept.until(lambda: no_wait.held == ["web"])
        assert not kept.host.journal.pending()


@virtual_time.test
async def test_where_nobody_can_tell_what_changed_everything_is_looked_at_but_not_all_the_time(
    tmp_path: Path,
) -> None:
    hints = Hints()
    async with held(hints, tmp_path) as kept:
        await kept.converge(motd(tmp_path))
        clock, times = asyncio.get_running_loop().time, []
        for _ in range(3):
            (tmp_path / "motd").write_text("bye\n")
            hints.tell(everything=True)
            hints.tell(everything=True)
            await kept.until(lambda: (tmp_path / "motd").read_text() == "hello\n")
            times.append(clock())
        assert [round(one - times[0]) for one in times] == [0, 5, 10]


@virtual_time.test
async def test_what_is_touched_during_an_upgrade_is_repaired_after_it(tmp_path: Path) -> None:
    hints = Hints()
    async with held(hints, tmp_path) as kept:
        await kept.converge(motd(tmp_path))
        async with kept.host.converger.upgrading:
            (tmp_path / "motd").write_text("bye\n")
            hints.tell(file_id(f"{tmp_path}/motd"))
            await asyncio.sleep(600)
            assert (tmp_path / "motd").read_text() == "bye\n"
            (tmp_path / "other").write_text("x")
            await kept.converge(motd(tmp_path), config_set("o", files=[{"path": f"{tmp_path}/other"}]))
            assert (tmp_path / "other").read_text() == ""  # passes go on
            (tmp_path / "motd").write_text("bye\n")
        await kept.until(lambda: (tmp_path / "motd").read_text() == "hello\n")


@virtual_time.test
async def test_a_new_address_is_reported_and_repairs_nothing(tmp_path: Path) -> None:
    hints = Hints()
    async with held(hints, tmp_path) as kept:
        await kept.converge(motd(tmp_path))
        (tmp_path / "motd").write_text("bye\n")
        hints.tell(inventory=True)
        await kept.until(lambda: kept.reports == [True])
        assert (kept.told, (tmp_path / "motd").read_text()) == ([], "bye\n")


@virtual_time.test
async def test_what_is_touched_before_the_first_pass_is_left_to_it(tmp_path: Path) -> None:
    hints = Hints()
    async with held(hints, tmp_path) as kept:
        hints.tell(file_id(f"{tmp_path}/motd"))
        hints.tell(everything=True)
        await kept.converge(motd(tmp_path))
        assert kept.drifts.records == []


@virtual_time.test
async def test_what_cannot_be_watched_is_said(tmp_path: Path) -> None:
    hints = Hints()
    async with held(hints, tmp_path) as kept:
        assert conditions(kept)["Watching"] == ("False", "Periodic", "")
        hints.shortfalls = ("cannot watch /x: too many; raise fs.inotify.max_user_watches",)
        await kept.converge(motd(tmp_path))
        assert conditions(kept)["Watching"][:2] == ("False", "Incomplete")
        hints.shortfalls = ()
        await kept.converge(motd(tmp_path))
        assert conditions(kept)["Watching"] == ("True", "EventDriven", "")


async def test_observed_drift_is_shown_once_and_left_alone_until_the_declaration_changes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "motd"
    async with Kept(tmp_path) as kept:
        await kept.converge(motd(tmp_path, drift="observe"))
        assert path.read_text() == "hello\n"  # what never held is applied
        path.write_text("bye\n")
        await kept.until(lambda: kept.drifts.records)
        await kept.converge(motd(tmp_path, drift="observe"))
        (record,) = kept.drifts.records
        assert (record.outcome, record.took) == ("observed", "")
        assert record.message == ("content differs\n--- declared\n+++ found\n@@ -1 +1 @@\n-hello\n+bye")
        assert path.read_text() == "bye\n"
        found = conditions(kept)
        assert (found["Drifted"][:2], found["Ready"][0]) == (("True", "Observed"), "True")
        assert await kept.host.preview(motd(tmp_path, drift="observe")) == [f"WriteFile {path}"]
        path.write_text("see you\n")
        await kept.until(lambda: len(kept.drifts.records) == 2)  # another difference is told of
        path.write_text("hello\n")
        await kept.until(lambda: conditions(kept)["Drifted"][0] == "False")
        path.write_text("bye\n")
        await kept.until(lambda: len(kept.drifts.records) == 3)
        await kept.converge(motd(tmp_path, "news\n", drift="observe"))
        assert path.read_text() == "news\n"
        assert conditions(kept)["Drifted"][:2] == ("False", "NoDrift")
        assert [one for _, one in kept.outcomes()] == ["observed"] * 3


@virtual_time.test
async def test_a_service_that_is_left_alone_is_not_started_because_a_file_of_its_was_put_back(
    tmp_path: Path,
) -> None:
    hints = Hints()
    app = {"name": "app", "ensure": "running", "drift": "observe", "subscribe_files": [f"{tmp_path}/motd"]}
    async with held(hints, tmp_path) as kept:
        await kept.converge(motd(tmp_path), config_set("app", services=[app]))
        services = kept.host.services
        services.facts[ServiceKey("app")] = DOWN
        hints.tell(APP)
        await kept.until(lambda: kept.outcomes() == [("service:app", "observed")])
        services.calls.clear()
        (tmp_path / "motd").write_text("bye\n")
        hints.tell(file_id(f"{tmp_path}/motd"))
        await kept.until(lambda: ("/motd", "repaired") in kept.outcomes())
        assert not services.facts[ServiceKey("app")].running
        assert services.calls == []


async def test_a_policy_that_changes_to_repair_repairs(tmp_path: Path) -> None:
    async with Kept(tmp_path) as kept:
        await kept.converge(motd(tmp_path, drift="observe"))
        (tmp_path / "motd").write_text("bye\n")
        await kept.until(lambda: kept.drifts.records)
        await kept.converge(motd(tmp_path))
        assert (tmp_path / "motd").read_text() == "hello\n"
        assert [one for _, one in kept.outcomes()] == ["observed", "repaired"]


@pytest.mark.parametrize("mode", ["0600", "0640"])
async def test_private_files_are_never_shown(tmp_path: Path, mode: str) -> None:
    async with Kept(tmp_path) as kept:
        await kept.converge(motd(tmp_path, "password=one\n", drift="observe", mode=mode))
        (tmp_path / "motd").write_text("password=two\n")
        await kept.until(lambda: kept.drifts.records)
        (tmp_path / "motd").write_text("password=six\n")
        await kept.until(lambda: len(kept.drifts.records) == 2)
        (tmp_path / "motd").chmod(0o644)
        (tmp_path / "motd").write_text("password=ten\n")
        await kept.until(lambda: len(kept.drifts.records) == 3)
        for record in kept.drifts.records:
            assert (record.found, record.wanted) == ("", "")
            assert "password" not in record.message


class Shelf:
    """Where a process leaves what it knows to the next."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def load_held(self) -> dict[str, str]:
        return dict(self.held)

    def save_held(self, held: Mapping[str, str]) -> bool:
        self.held = dict(held)
        return True


async def test_observed_drift_stays_alone_and_is_not_told_again_after_a_restart(tmp_path: Path) -> None:
    shelf = Shelf()
    async with Kept(tmp_path) as kept:
        kept.host_state.watch = DriftWatch(shelf)
        await kept.converge(motd(tmp_path, drift="observe"))
        (tmp_path / "motd").write_text("bye\n")
        await kept.until(lambda: kept.drifts.records)
        kept.host_state.watch.save()
    async with Kept(tmp_path) as kept:
        kept.host_state.watch = DriftWatch(shelf)
        await kept.converge(motd(tmp_path, drift="observe"))
        assert kept.drifts.records == []
        assert (tmp_path / "motd").read_text() == "bye\n"
        assert conditions(kept)["Drifted"][:2] == ("True", "Observed")
    (tmp_path / "motd").write_text("farewell\n")
    async with Kept(tmp_path) as kept:
        kept.host_state.watch = DriftWatch(shelf)
        await kept.converge(motd(tmp_path, drift="observe"))
        assert [one for _, one in kept.outcomes()] == ["observed"]


async def test_a_stray_entry_of_an_observed_directory_is_told_of_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    declared = config_set(
        "d",
        files=[
            {"path": str(folder), "ensure": "directory", "purge": True, "drift": "observe"},
            {"path": f"{folder}/a", "content": "a"},
        ],
    )
    async with Kept(tmp_path) as kept:
        await kept.converge(declared)
        (folder / "stray").write_text("x")
        await kept.until(lambda: kept.outcomes() == [("/conf.d/stray", "observed")])
        (folder / "a").unlink()  # the file itself is repaired, as its own policy says
        await kept.until(lambda: ("/conf.d/a", "repaired") in kept.outcomes())
        assert (folder / "stray").exists()
        (folder / "stray").unlink()
        await kept.until(lambda: conditions(kept)["Drifted"][0] == "False")
        assert len(kept.outcomes()) == 2


async def test_a_storm_ends_with_everything_as_declared(tmp_path: Path) -> None:
    """100,000 changes: of declared files, and of siblings that nobody declares."""
    files = [{"path": f"{tmp_path}/d/{number}", "content": "x"} for number in range(50)]
    declared = config_set("storm", files=[{"path": f"{tmp_path}/d", "ensure": "directory"}, *files])
    async with Kept(tmp_path) as kept:
        await kept.converge(declared)
        pens = [os.open(f"{tmp_path}/d/{number}", os.O_WRONLY) for number in range(50)]
        before = _resident()
        for number in range(100_000):
            os.pwrite(pens[number % 50], b"y", 0)
            if number % 1000 == 0:
                await asyncio.sleep(0)
                (tmp_path / "d" / "nobody").write_text(str(number))
        for pen in pens:
            os.close(pen)
        for number in range(50):
            (tmp_path / "d" / str(number)).write_text("the end")
        await kept.until(
            lambda: all((tmp_path / "d" / str(number)).read_text() == "x" for number in range(50))
        )
        assert _resident() - before < 10 * 1024 * 1024
        assert (tmp_path / "d" / "nobody").read_text() == "99000"


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
