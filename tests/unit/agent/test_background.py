"""Executions that take long: everything else of the host goes on, and nothing of their own ConfigSet does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.agent.passes.background import Background, BackgroundJob
from nodemanager.agent.passes.housekeeping import Housekeeper
from nodemanager.agent.passes.pass_schedule import RETRY_SECONDS, PassSchedule
from nodemanager.agent.passes.underway import LONG_SECONDS
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.host.files.bucket import Bucket, BucketLimits
from nodemanager.host.kind_parts import HostPart, StageWork
from nodemanager.host.results import ResourceOutcome, Result, idle_outcome, result
from nodemanager.host.stages import PARTS
from nodemanager.plan.facts import Facts, Verdicts
from nodemanager.plan.needs import ExecutionNeeds
from nodemanager.plan.resources import EXEC, ResourceId
from nodemanager.plan.steps import Step
from support import virtual_time
from support.memory_host import Host
from support.realtime import Kept
from support.root_tree import config_set, needs_root, outcomes
from support.scripted_server import until

PATIENCE = 0.05


class Program:
    """A program that runs until it is told to end, and says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fifo = folder / "go-on"
        os.mkfifo(self.fifo)

    @property
    def runs(self) -> int:
        """How often it has begun."""
        began = self.folder / "began"
        return len(began.read_text().splitlines()) if began.exists() else 0

    async def begins(self, times: int = 1) -> None:
        await until(lambda: self.runs == times, 90)

    async def end(self) -> None:
        await asyncio.to_thread(self.fifo.write_text, "now")

    def config_set(self, content: str = "one", name: str = "long", extra: str = "") -> ConfigSet:
        """A file, and the program, which runs when the file changes."""
        path = f"{self.folder}/{name}.conf"
        script = f"echo x >> {self.folder}/began; cat {self.fifo} > /dev/null"
        files = [{"path": path, "content": content}]
        files += [{"path": f"{self.folder}/{extra}", "content": extra}] if extra else []
        return config_set(
            name,
            files=files,
            executions=[{"command": "sh", "args": ["-c", script], "subscribe_files": [path]}],
        )


def other(folder: Path, content: str = "other") -> ConfigSet:
    return config_set("other", files=[{"path": f"{folder}/other.conf", "content": content}])


def kinds(found: dict[str, str]) -> dict[str, str]:
    return {one.partition("#")[0]: outcome for one, outcome in found.items()}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


class Passes:
    """A host whose passes do not wait for executions, and how often one was asked for."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.asked = 0
        self.restart()

    def restart(self) -> None:
        self.host.restart()
        self.host.converger.background.patience = PATIENCE
        self.host.converger.background.ended = self._ask

    def _ask(self) -> None:
        self.asked += 1

    async def converge(self, *sets: ConfigSet) -> dict[str, str]:
        return kinds(outcomes(await self.host.converge(*sets)))

    async def over(self, times: int = 1) -> None:
        await until(lambda: self.asked >= times, 90)


@pytest.fixture
async def passes(tmp_path: Path) -> AsyncIterator[Passes]:
    host = Host(tmp_path)
    found = Passes(host)
    yield found
    running = asyncio.create_task(host.converger.background.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    host.tree.close()


@needs_root
async def test_another_set_goes_on_and_its_own_waits(passes: Passes, program: Program) -> None:
    folder = program.folder
    found = await passes.converge(program.config_set())
    assert found == {f"file:{folder}/long.conf": "changed", "exec:long/sh": "waiting"}
    await program.begins()
    found = await passes.converge(program.config_set("two", extra="more"), other(folder))
    assert found == {
        f"file:{folder}/long.conf": "waiting",
        f"file:{folder}/more": "waiting",
        f"file:{folder}/other.conf": "changed",
        "exec:long/sh": "waiting",
    }
    assert (folder / "other.conf").read_text() == "other"
    assert (folder / "long.conf").read_text() == "one"
    assert passes.asked == 0
    await program.end()
    await passes.over()
    found = await passes.converge(program.config_set("two", extra="more"), other(folder))
    assert (folder / "long.conf").read_text() == "two"
    assert found["exec:long/sh"] == "waiting"  # it went well, and is owed another run by the new content
    await program.begins(2)
    await program.end()
    await passes.over(2)
    found = await passes.converge(program.config_set("two", extra="more"), other(folder))
    assert found["exec:long/sh"] == "changed"
    assert passes.host.journal.pending() == {}
    assert program.runs == 2


@needs_root
async def test_what_belongs_below_a_link_of_a_busy_set_waits_for_the_link(
    passes: Passes, program: Program
) -> None:
    long, link = program.config_set(), f"{program.folder}/cur"
    (program.folder / "real").mkdir()
    made = config_set("long", files=[{"path": link, "ensure": "symlink", "target": "real"}])
    below = config_set(
        "other",
        files=[{"path": f"{link}/d", "ensure": "directory"}, {"path": f"{link}/d/x", "content": "x"}],
    )
    ids = [f"file:{link}", f"file:{link}/d", f"file:{link}/d/x"]
    await passes.converge(long)
    await program.begins()
    long.spec.files.extend(made.spec.files)
    found = await passes.converge(long, below)
    assert [found[one] for one in ids] == ["waiting"] * 3
    await program.end()
    await passes.over()
    found = await passes.converge(long, below)
    assert [found[one] for one in ids] == ["changed"] * 3
    assert (program.folder / "real/d/x").read_text() == "x"


@needs_root
async def test_the_end_of_a_run_is_told_once_and_begins_no_other(passes: Passes, program: Program) -> None:
    """One that runs whenever its conditions say so would otherwise run without a pause."""
    always = program.config_set().spec.executions[0]
    declared = config_set(
        "long", executions=[{"command": "sh", "args": always.args, "only_if": {"command": "true"}}]
    )
    await passes.converge(declared)
    await program.begins()
    await program.end()
    await passes.over()
    assert await passes.converge(declared) == {"exec:long/sh": "changed"}
    assert program.runs == 1


@needs_root
async def test_a_file_that_changes_while_its_program_runs_owes_another_run(
    passes: Passes, program: Program
) -> None:
    """The file is of another set, so that it does not wait."""
    path = f"{program.folder}/long.conf"
    runs = program.config_set().spec.executions[0]
    subscriber = config_set(
        "long", executions=[{"command": "sh", "args": runs.args, "subscribe_files": [path]}]
    )

    def files(content: str) -> ConfigSet:
        return config_set("files", files=[{"path": path, "content": content}])

    await passes.converge(files("one"), subscriber)
    await program.begins()
    await passes.converge(files("two"), subscriber)
    await program.end()
    await passes.over()
    await passes.converge(files("two"), subscriber)
    await program.begins(2)
    await program.end()
    await passes.over(2)
    assert (await passes.converge(files("two"), subscriber))["exec:long/sh"] == "changed"
    assert passes.host.journal.pending() == {}


@needs_root
async def test_a_new_process_goes_on_with_everything_else(passes: Passes, program: Program) -> None:
    await passes.converge(program.config_set())
    await program.begins()
    leaving = asyncio.create_task(passes.host.converger.background.run())
    await asyncio.sleep(0)
    leaving.cancel()
    async with asyncio.timeout(90):
        await asyncio.gather(leaving, return_exceptions=True)  # and does not wait for the program
    passes.restart()
    found = await passes.converge(program.config_set("two"), other(program.folder))
    assert found == {
        f"file:{program.folder}/long.conf": "waiting",
        f"file:{program.folder}/other.conf": "changed",
        "exec:long/sh": "waiting",
    }
    assert program.runs == 1
    await program.end()
    await passes.over()
    assert passes.host.journal.pending() == {}
    await passes.converge(program.config_set(), other(program.folder))
    assert program.runs == 1


@needs_root
async def test_what_is_not_wanted_any_more_does_not_begin(passes: Passes, program: Program) -> None:
    first = program.config_set()
    second = {"command": "touch", "args": [f"{program.folder}/second"], "creates": "/nowhere"}
    long = first.spec.executions[0]
    both = [{"command": "sh", "args": long.args, "creates": "/nowhere"}, second]
    found = await passes.converge(config_set("long", executions=both))
    assert found == {"exec:long/sh": "waiting", "exec:long/touch": "waiting"}
    await program.begins()
    await passes.converge(config_set("long", executions=both[:1]))
    await program.end()
    await passes.over()
    assert not (program.folder / "second").exists()


def two_steps(program: Program, content: str, *, edited: bool = False) -> ConfigSet:
    """The program, and after it one that copies a file to which it does not subscribe."""
    source, copy = f"{program.folder}/source", f"{program.folder}/copy"
    runs = program.config_set().spec.executions[0]
    args = [source, f"{copy}-edited"] if edited else [source, copy]
    always = {"only_if": {"command": "true"}}
    return config_set(
        "long",
        files=[{"path": source, "content": content}],
        executions=[
            {"command": "sh", "args": runs.args, **always},
            {"command": "cp", "args": args, **always},
        ],
    )


@needs_root
async def test_what_was_queued_before_an_edit_does_not_run_nor_count(
    passes: Passes, program: Program
) -> None:
    """The executions are the same, and so are their names; what they work with is not."""
    copy = program.folder / "copy"
    await passes.converge(two_steps(program, "one"))
    await program.begins()
    await passes.converge(two_steps(program, "two"))
    await program.end()
    await passes.over()
    assert not copy.exists()
    found = await passes.converge(two_steps(program, "two"))
    assert found["exec:long/sh"] == found["exec:long/cp"] == "waiting"
    await program.begins(2)
    await program.end()
    await passes.over(2)
    found = await passes.converge(two_steps(program, "two"))
    assert found["exec:long/sh"] == found["exec:long/cp"] == "changed"
    assert copy.read_text() == "two"


@needs_root
async def test_a_command_that_was_edited_is_another_one(passes: Passes, program: Program) -> None:
    """Its name has a digest of the whole declaration."""
    await passes.converge(two_steps(program, "one"))
    await program.begins()
    await passes.converge(two_steps(program, "one", edited=True))
    await program.end()
    await passes.over()
    await passes.converge(two_steps(program, "one", edited=True))
    await program.begins(2)
    await program.end()
    await passes.over(2)
    assert not (program.folder / "copy").exists()
    assert (program.folder / "copy-edited").exists()


@needs_root
async def test_what_was_not_tried_on_a_held_host_begins_after_that(passes: Passes, program: Program) -> None:
    declared = two_steps(program, "one")
    await passes.converge(declared)
    await program.begins()
    passes.host.converger.restraints.may_act = lambda: False
    await program.end()
    await passes.over()
    assert not (program.folder / "copy").exists()
    passes.host.converger.restraints.may_act = lambda: True
    found = await passes.converge(declared)
    assert found["exec:long/cp"] in ("changed", "waiting")
    await until((program.folder / "copy").exists, 90)
    assert program.runs == 1


@needs_root
async def test_what_failed_runs_at_once_when_its_file_changes(passes: Passes, tmp_path: Path) -> None:
    """Even in a pass that the end of a lane asked for."""
    path = f"{tmp_path}/says"

    def declared(content: str) -> list[ConfigSet]:
        args = ["-c", f"echo x >> {tmp_path}/runs; grep -q good {path}"]
        runs = config_set("runs", executions=[{"command": "sh", "args": args, "subscribe_files": [path]}])
        return [config_set("files", files=[{"path": path, "content": content}]), runs]

    passes.host.converger.background.patience = None
    found = await passes.converge(*declared("bad"))
    assert found["exec:runs/sh"] == "failed"
    for content, outcome, runs in (("bad", "blocked", 1), ("good", "changed", 2)):
        passes.host.converger.background.ask()
        found = await passes.converge(*declared(content))
        assert found["exec:runs/sh"] == outcome
        assert len((tmp_path / "runs").read_text().splitlines()) == runs


HOUR = 3600.0


class Always:
    """Executions whose conditions always hold, in virtual time; a pass follows as in the agent."""

    def __init__(self, folder: Path, seconds: dict[str, float], outcome: ResourceOutcome) -> None:
        self.runs = dict.fromkeys(seconds, 0)
        self.passes = 0
        self._seconds, self._outcome = seconds, outcome
        self._asked = asyncio.Event()
        part: HostPart[ExecutionNeeds, Facts] = HostPart(self._observe, self._apply)
        self.host = Host(folder, parts={**PARTS, EXEC: part})
        self.host.converger.background.patience = LONG_SECONDS
        self.host.converger.background.ended = self._asked.set

    async def _observe(self, _needed: ExecutionNeeds, work: StageWork) -> Facts:
        yes = Verdicts(only_if=True)
        return Facts(verdicts={one.id: yes for one in work.given.desired.executions})

    async def _apply(self, steps: Sequence[Step], _work: StageWork) -> list[Result]:
        found = []
        for step in steps:
            if step.ACTS:
                self.runs[step.sources[0]] += 1
                await asyncio.sleep(self._seconds[step.sources[0]])
            found.append(result(step, self._outcome if step.ACTS else idle_outcome(step)))
        return found

    async def work(self) -> None:
        """Do passes for an hour."""
        always = {"command": "sh", "only_if": {"command": "true"}}
        sets = [config_set(name, executions=[always]) for name in self._seconds]
        keeper = Housekeeper(Bucket(self.host.tree, "/nowhere", BucketLimits(age=0)), lambda: 0.0)
        schedule, loop = PassSchedule(keeper), asyncio.get_running_loop()
        while loop.time() < HOUR:
            self._asked.clear()
            self.passes += 1
            results = await self.host.converge(*sets)
            assert {one.id.name.partition("/")[0] for one in results} == set(self._seconds)
            schedule.passed(failed=any(one.failed for one in results))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), schedule.next(ManagedNode()) or HOUR)
        running = asyncio.create_task(self.host.converger.background.run())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), st.floats(0.5, 90.0), min_size=1),
    st.sampled_from([ResourceOutcome.FAILED, ResourceOutcome.CHANGED]),
)
def test_executions_do_not_start_each_other(seconds: dict[str, float], outcome: ResourceOutcome) -> None:
    """What failed waits for its turn; what went well has no reason to run again."""
    with tempfile.TemporaryDirectory() as folder:
        always = Always(Path(folder), seconds, outcome)
        virtual_time.run(always.work())
        always.host.tree.close()
    for name, runs in always.runs.items():
        least = RETRY_SECONDS + seconds[name]
        assert runs <= (HOUR / least + 2 if outcome is ResourceOutcome.FAILED else 2)
        assert runs > 1 or outcome is ResourceOutcome.CHANGED
    assert always.passes <= 2 * sum(always.runs.values()) + 2


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    found = Kept(tmp_path)
    found.host.converger.background.patience = PATIENCE
    return found


@needs_root
async def test_drift_of_others_is_repaired_and_its_own_after_the_end(kept: Kept, program: Program) -> None:
    """The program may have changed it for a reason: one that moves a database stops its service first."""
    asked = asyncio.Event()
    kept.host.converger.background.ended = asked.set
    sets = program.config_set(extra="own"), other(program.folder)
    own, others = program.folder / "own", program.folder / "other.conf"
    async with kept:
        await kept.converge(*sets)
        await program.begins()
        own.write_text("drift")
        others.write_text("drift")
        await kept.until(lambda: others.read_text() == "other")
        assert own.read_text() == "drift"
        assert [one.resource for one in kept.drifts.records] == [f"file:{others}"]
        await program.end()
        async with asyncio.timeout(90):
            await asked.wait()
        await kept.converge(*sets)
        assert own.read_text() == "own"


# The lanes by themselves


async def test_who_asks_for_some_results_leaves_the_others() -> None:
    lanes = Lanes()
    await lanes.do("start", "a", 2)
    for _ in range(2):
        await lanes.do("finish", "a", 0)
    first, second = lanes.ended
    assert [one.id for one in lanes.background.take({second})] == [second]
    assert [one.id for one in lanes.background.take()] == [first]


SETS = ("a", "b")
DEEDS = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(SETS), st.integers(1, 3)),
    st.tuples(st.just("finish"), st.sampled_from(SETS), st.booleans()),
    st.tuples(st.just("wait"), st.just(""), st.just(0)),
    st.tuples(st.just("take"), st.just(""), st.just(0)),
)


class Lanes:
    """Lanes of jobs that end when they are told to, and what must always be so."""

    def __init__(self) -> None:
        self.asked = 0
        self.background = Background(self._ask, 0)
        self.running: dict[str, asyncio.Event] = {}
        self.begun: dict[str, list[int]] = {name: [] for name in SETS}
        self.ended: list[ResourceId] = []
        self.taken: list[ResourceId] = []
        self.started: dict[str, int] = dict.fromkeys(SETS, 0)

    def _ask(self) -> None:
        self.asked += 1

    def job(self, name: str, number: int) -> BackgroundJob:
        resource = ResourceId("exec", f"{name}/{number}")

        async def do() -> list[Result]:
            assert name not in self.running, "two at once"
            self.begun[name].append(number)
            self.running[name] = asyncio.Event()
            await self.running[name].wait()
            del self.running[name]
            self.ended.append(resource)
            return [Result(resource, (name,), ResourceOutcome.CHANGED)]

        return BackgroundJob(resource, (name,), do)

    async def do(self, deed: str, name: str, number: int) -> None:
        background = self.background
        if deed == "start" and name in background.busy:
            with pytest.raises(RuntimeError):
                background.start(name, [self.job(name, -1)])
        elif deed == "start":
            first = self.started[name]
            self.started[name] += number
            background.start(name, [self.job(name, first + one) for one in range(number)])
        elif deed == "finish" and name in self.running:
            self.running[name].set()
        elif deed == "wait":
            await background.wait()
        elif deed == "take":
            self.taken += [one.id for one in background.take()]
        for _ in range(5):  # all that can go on, does
            await asyncio.sleep(0)
        assert set(self.running) == set(background.busy)
        assert all(numbers == sorted(numbers) for numbers in self.begun.values())
        assert sorted([*self.taken, *background.finished(untaken=True)]) == sorted(self.ended)


@given(st.lists(DEEDS, max_size=30))
def test_lanes_keep_their_order_lose_nothing_and_ask_for_a_pass(
    deeds: list[tuple[str, str, int]],
) -> None:
    async def all_of_them() -> None:
        lanes = Lanes()
        for deed in deeds:
            await lanes.do(*deed)
        await lanes.do("wait", "", 0)
        lanes.taken += [one.id for one in lanes.background.take()]
        asked = lanes.asked
        late = bool(lanes.background.busy)
        while lanes.background.busy:
            for name in list(lanes.running):
                await lanes.do("finish", name, 0)
        assert (lanes.asked > asked) is late, "whoever gave up waiting has to be told"
        await lanes.do("take", "", 0)
        assert sorted(lanes.taken) == sorted(lanes.ended)
        assert {name: len(numbers) for name, numbers in lanes.begun.items()} == lanes.started

    asyncio.run(all_of_them())
