"""Tasks on disk: killed at any write, or between one and what follows, none is done twice, none is lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult, Performer
from nodemanager.agent.tasks.engine import TaskEngine
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.agent.tasks.programs import Programs, argv_of
from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.api.maintenance.task_steps import (
    ExecutionAction,
    PackagesAction,
    SecretVariable,
    TaskAction,
    TaskStep,
)
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment
from nodemanager.host.process.runs import Runs
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)


class Killed(BaseException):
    """The process is gone."""


class Host:
    """A disk that stays, and processes that come and go; every effect is counted."""

    def __init__(self, folder: Path, dies_at: int) -> None:
        self.folder = folder
        self.effects: list[str] = []
        self.moments = 0
        self.dies_at = dies_at

    def moment(self) -> None:
        """Somewhere between two things that happen."""
        self.moments += 1
        if self.moments == self.dies_at:
            raise Killed

    async def process(self, entry: Entry | None) -> Entry:
        """Live from the start of a process to its end, whichever way."""
        tree = Tree(str(self.folder))
        try:
            ledger = LedgerFolder(tree)
            save = ledger.save

            def saving(one: Entry) -> None:
                self.moment()
                save(one)
                self.moment()

            ledger.save = saving  # type: ignore[method-assign,assignment]
            performers = {"execution": Counted(self), "packages": Counted(self)}
            engine = TaskEngine(ledger, performers, "boot", lambda: NOW, lambda _entry: None)
            unfinished = ledger.unfinished()
            if not unfinished and ledger.entries:
                return next(iter(ledger.entries.values()))
            if unfinished:
                return await engine.run(unfinished[0])
            assert entry is not None
            ledger.claim(entry)
            return await engine.run(entry)
        finally:
            tree.close()


class Counted(Performer):
    """An action that counts how often it was really done; a killed process may have done it, or not."""

    def __init__(self, host: Host) -> None:
        self.host = host

    async def perform(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        self.host.moment()
        self.host.effects.append(attempt.key.partition("/")[2])
        self.host.moment()
        return AttemptResult(succeeded=action.argv != ["false"], message="it failed")

    async def settle(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        self.host.moment()
        return INTERRUPTED


def task(*steps: TaskStep) -> Entry:
    spec = NodeTaskSpec(node_name="web1", steps=list(steps), deadline="2026-11-17T00:00:00Z", fencing_token=1)
    return Entry("t", spec, TaskRecord("uid", 1, steps=(StepRecord(),) * len(steps)))


def step(name: str, *argv: str, **more: Any) -> TaskStep:
    return TaskStep(name=name, execution=ExecutionAction(argv=list(argv) or ["true"]), **more)


BACK = TaskAction(execution=ExecutionAction(argv=["back"]))
TASKS = {
    "good": [step("a"), step("b"), step("c")],
    "stops": [step("a"), step("b", "false"), step("c")],
    "goes-on": [step("a"), step("b", "false", on_failure="continue"), step("c")],
    "tries-again": [step("a"), step("b", "false", retries=2), step("c")],
    "undoes": [step("a", undo=BACK), step("b", undo=BACK), step("c", "false", on_failure="undo", undo=BACK)],
}


@pytest.mark.parametrize("name", TASKS)
def test_claim_1_an_agent_killed_at_every_moment_does_nothing_twice(name: str, tmp_path: Path) -> None:
    steps = TASKS[name]
    for dies_at in itertools.count(1):
        folder = tmp_path / str(dies_at)
        folder.mkdir()
        host, ended = Host(folder, dies_at), None
        for _ in range(3):
            try:
                ended = asyncio.run(host.process(task(*steps)))
            except Killed:
                continue
            break
        assert ended is not None
        assert ended.record.phase.is_end
        check(host, ended, steps)
        if host.moments < dies_at:
            break  # it was never killed: there are no more moments
    assert dies_at > 10


def check(host: Host, ended: Entry, steps: list[TaskStep]) -> None:
    assert len(host.effects) == len(set(host.effects)), "a try was done twice"
    for place, one in enumerate(steps):
        tries = sum(
            effect.startswith(f"{one.name}/") and not effect.endswith("/undo") for effect in host.effects
        )
        known = ended.record.steps[place]
        assert tries <= known.attempts <= one.retries + 1
        if known.phase is StepPhase.SUCCEEDED:
            assert tries
    if ended.record.phase is TaskPhase.SUCCEEDED:
        done = {effect.partition("/")[0] for effect in host.effects}
        assert done >= {one.name for one in steps if one.on_failure != "continue"}


class Unbroken(Performer):
    """An action that goes on when the agent is to stop, as a package manager does."""

    UNBROKEN = True

    def __init__(self) -> None:
        self.began, self.end, self.done = asyncio.Event(), asyncio.Event(), 0

    async def perform(self, action: PackagesAction, attempt: Attempt) -> AttemptResult:
        self.began.set()
        await self.end.wait()
        self.done += 1
        return AttemptResult(succeeded=True)


@pytest.mark.parametrize("undo", [False, True])
async def test_what_is_not_broken_off_is_written_down_though_the_agent_stops(
    tmp_path: Path, *, undo: bool
) -> None:
    tree = Tree(str(tmp_path))
    ledger, slow = LedgerFolder(tree), Unbroken()
    steps = [step("a", undo=TaskAction(packages=PackagesAction(remove=["x"])))]
    entry = task(*steps, step("b", "false", on_failure="undo"))
    if not undo:
        entry = task(TaskStep(name="a", packages=PackagesAction(remove=["x"])), step("b"))
    quick = Counted(Host(tmp_path, 0))
    engine = TaskEngine(ledger, {"packages": slow, "execution": quick}, "boot", lambda: NOW, lambda _: None)
    running = asyncio.create_task(engine.run(entry))
    await slow.began.wait()
    running.cancel()
    await asyncio.sleep(0)
    slow.end.set()
    await asyncio.wait({running})
    assert running.cancelled()
    (kept,) = LedgerFolder(tree).entries.values()
    assert kept.record.steps[0].phase is (StepPhase.UNDONE if undo else StepPhase.SUCCEEDED)
    assert (await engine.run(kept)).record.phase is (TaskPhase.UNDONE if undo else TaskPhase.SUCCEEDED)
    assert slow.done == 1
    tree.close()


@pytest.mark.parametrize("phase", [StepPhase.PENDING, StepPhase.RUNNING, StepPhase.UNDOING])
async def test_a_step_of_a_newer_agent_fails_and_ends_nothing_else(tmp_path: Path, phase: StepPhase) -> None:
    """A newer agent took the task, and was taken back itself; its kind of step is gone when it is read."""
    tree = Tree(str(tmp_path))
    quick = Counted(Host(tmp_path, 0))
    engine = TaskEngine(LedgerFolder(tree), {"execution": quick}, "boot", lambda: NOW, lambda _: None)
    known = StepRecord(phase=phase, attempts=1, inverse=b"x")
    entry = task(TaskStep(name="new"), step("b"))
    record = msgspec.structs.replace(entry.record, undoing=phase is StepPhase.UNDOING).with_step(0, known)
    ended = await engine.run(msgspec.structs.replace(entry, record=record))
    wanted = TaskPhase.HALTED if phase is StepPhase.UNDOING else TaskPhase.FAILED
    assert (ended.record.phase, quick.host.effects) == (wanted, [])
    assert "this one does not know the kind of the step; upgrade it" in ended.record.steps[0].message
    tree.close()


async def secrets(wanted: Sequence[SecretVariable], _seconds: float) -> dict[str, str]:
    return dict.fromkeys((one.name for one in wanted), "1234")


async def test_a_program_runs_once_and_goes_on_without_us(tmp_path: Path) -> None:
    """Its effects are those of a real program, which the shell of a run keeps a note of."""
    tree = Tree("/")
    programs = Programs(Runs(tree, None, environment.host_runner(), f"{tmp_path}/runs"), "boot", secrets)
    out = tmp_path / "out"
    pin = [SecretVariable(name="PIN", secret="s", key="k")]
    script = f"echo $WHO >> {out}; echo $PIN $WHO"
    action = ExecutionAction(script=script, env={"WHO": "me"}, secret_env=pin)
    attempt = Attempt("uid/a/1", 30, StepRecord(boot_id="boot"))
    result = await programs.perform(action, attempt)
    assert (result.succeeded, result.exit_code, result.output) == (True, 0, "******** me\n")
    again = await programs.settle(action, attempt)
    assert (again.succeeded, again.output.partition(":")[0]) == (True, "what it said is left out")
    assert out.read_text() == "me\n"
    tree.close()


async def test_a_program_runs_where_it_is_told_and_leaves_no_notes(tmp_path: Path) -> None:
    tree, notes = Tree("/"), tmp_path / "runs"
    programs = Programs(Runs(tree, None, environment.host_runner(), str(notes)), "boot")
    attempt = Attempt("uid/a/1", 30, StepRecord(boot_id="boot"))
    here = ExecutionAction(argv=["pwd"], working_directory="/usr")
    assert (await programs.perform(here, attempt)).output == "/usr\n"
    lost = await programs.perform(ExecutionAction(argv=["pwd"], working_directory="/lost"), attempt)
    assert not lost.succeeded
    assert "/lost" in lost.output
    programs.clean()
    assert list(notes.iterdir()) == []
    tree.close()


async def test_a_program_that_never_began_begins_once(tmp_path: Path) -> None:
    """In the same boot its notes prove it; after a power cut nothing does, and it counts as interrupted."""
    tree, out = Tree("/"), tmp_path / "out"
    programs = Programs(Runs(tree, None, environment.host_runner(), f"{tmp_path}/runs"), "boot")
    action = ExecutionAction(script=f"echo once >> {out}")
    other = Attempt("uid/a/1", 30, StepRecord(boot_id="boot before"))
    assert await programs.settle(action, other) == INTERRUPTED
    attempt = Attempt("uid/a/1", 30, StepRecord(boot_id="boot"))
    assert (await programs.settle(action, attempt)).succeeded
    assert (await programs.settle(action, attempt)).succeeded
    assert out.read_text() == "once\n"
    tree.close()


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (ExecutionAction(argv=["a", "b c"]), ["a", "b c"]),
        (ExecutionAction(script="echo x"), ["/bin/sh", "-c", "echo x"]),
        (ExecutionAction(script="#!/bin/bash -e\nx"), ["/bin/bash", "-e", "-c", "#!/bin/bash -e\nx"]),
        (ExecutionAction(script="#!/usr/bin/env python3\nx"), ["python3", "-c", "#!/usr/bin/env python3\nx"]),
    ],
)
def test_scripts_become_arguments(action: ExecutionAction, expected: list[str]) -> None:
    assert argv_of(action) == expected


def test_a_script_of_somebody_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot run the script: /usr/bin/lua is none of"):
        argv_of(ExecutionAction(script="#!/usr/bin/lua\nx"))


def test_a_damaged_record_is_never_done_again(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    ledger = LedgerFolder(tree)
    ledger.claim(task(step("a")))
    (path,) = tmp_path.rglob("uid.json")
    path.write_bytes(b"{")
    again = LedgerFolder(tree)
    assert again.known().records["uid"].phase is TaskPhase.HALTED
    assert again.fence == 1
    assert not again.unfinished()
    tree.close()


class Held:
    """A hold that begins with a step and lasts as long as somebody likes; time passes with every look."""

    def __init__(self, folder: Path, looks: int, *, since: str = "a") -> None:
        self.looks, self.since, self.now = looks, since, NOW
        self.told: list[str] = []
        self.effects: list[str] = []
        self.tree = Tree(str(folder))
        self.ledger = LedgerFolder(self.tree)

    def why(self) -> str:
        if not self.effects or self.looks <= 0:
            return ""
        self.looks -= 1
        self.now += timedelta(hours=1)
        asyncio.get_running_loop().call_soon(self.engine.wake.set)  # as whoever keeps holds does
        return "this host is held: a demo"

    async def run(self, entry: Entry) -> Entry:
        self.engine = TaskEngine(
            self.ledger, {"execution": Noting(self)}, "boot", lambda: self.now, self.tell, held=self.why
        )
        if not self.ledger.entries:
            self.ledger.claim(entry)
        return await self.engine.run(self.ledger.unfinished()[0])

    def tell(self, entry: Entry) -> None:
        if entry.record.paused and entry.record.paused not in self.told:
            self.told.append(entry.record.paused)


class Noting(Performer):
    def __init__(self, host: Held) -> None:
        self.host = host

    async def perform(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        self.host.effects.append(attempt.key.partition("/")[2])
        return AttemptResult(succeeded=action.argv != ["false"], message="it failed")


async def test_a_hold_pauses_before_the_next_step_and_its_end_lets_it_go_on(tmp_path: Path) -> None:
    host = Held(tmp_path, looks=3)
    ended = await host.run(task(step("a"), step("b")))
    assert (ended.record.phase, ended.record.paused) == (TaskPhase.SUCCEEDED, "")
    assert host.told == ["paused before step b: this host is held: a demo"]
    assert host.effects == ["a/1", "b/1"]


async def test_the_deadline_holds_while_a_host_is_held(tmp_path: Path) -> None:
    host = Held(tmp_path, looks=1000)
    ended = await host.run(task(step("a"), step("b")))
    assert ended.record.phase is TaskPhase.FAILED
    assert "its deadline 2026-11-17T00:00:00Z passed before step b" in ended.record.message
    assert host.effects == ["a/1"]


async def test_taking_back_waits_for_the_end_of_a_hold_however_long(tmp_path: Path) -> None:
    host = Held(tmp_path, looks=50)  # longer than the deadline, which is about going on
    ended = await host.run(task(step("a", undo=BACK), step("b", on_failure="undo")))
    assert (ended.record.phase, host.looks, host.effects) == (TaskPhase.UNDONE, 0, ["a/1", "a/undo"])
    assert host.told[-1] == "paused before taking back step a: this host is held: a demo"
    assert "deadline" in ended.record.message, "why it is taken back is not forgotten"


async def test_a_process_that_was_killed_while_it_paused_pauses_again_or_goes_on(tmp_path: Path) -> None:
    host = Held(tmp_path, looks=1000)
    entry = task(step("a"), step("b"))
    paused = Entry("t", entry.spec, msgspec.structs.replace(
        entry.record, phase=TaskPhase.RUNNING, paused="paused before step b: x",
        steps=(StepRecord(phase=StepPhase.SUCCEEDED, attempts=1), StepRecord()),
    ))  # fmt: skip
    host.ledger.claim(paused)
    ended = await host.run(entry)
    assert (ended.record.phase, ended.record.paused) == (TaskPhase.SUCCEEDED, "")
    assert host.effects == ["b/1"]
