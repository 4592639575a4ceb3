"""How a task goes from step to step: what is written down when, and what a performer is asked and told."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import pytest

from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult, Performer
from nodemanager.agent.tasks.engine import MAX_MESSAGE, TIMEOUT, TaskEngine
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.agent.tasks.packages import Packages
from nodemanager.api.maintenance.nodetask import OUTPUT_MAX, NodeTaskSpec
from nodemanager.api.maintenance.task_steps import ExecutionAction, PackagesAction, TaskAction, TaskStep
from nodemanager.host.base import HostError, WantedPackage
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.runner import RunError
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord
from support.fake_tools import MemoryPackages

T = TypeVar("T")
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
GOOD, BAD = AttemptResult(succeeded=True), AttemptResult(succeeded=False, message="it failed")
BACK = TaskAction(execution=ExecutionAction(argv=["back"]))


class Told(Performer):
    """Does what it is told, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.attempts: list[Attempt] = []
        self.results: list[AttemptResult | Exception] = []
        """What comes of each try; nothing left = it succeeds."""
        self.before: list[bytes | Exception] = []

    async def prepare(self, action: ExecutionAction) -> bytes:
        self.asked.append("prepare")
        return self._next(self.before, b"")

    async def perform(self, action: ExecutionAction | PackagesAction, attempt: Attempt) -> AttemptResult:
        return self._tried(" ".join(getattr(action, "argv", ["packages"])), attempt)

    async def settle(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        return self._tried(f"settle {action.argv[0]}", attempt)

    async def take_back(self, action: ExecutionAction, attempt: Attempt) -> AttemptResult:
        return self._tried(f"take back {action.argv[0]}", attempt)

    def clean(self) -> None:
        self.asked.append("clean")

    def _tried(self, what: str, attempt: Attempt) -> AttemptResult:
        self.asked.append(what)
        self.attempts.append(attempt)
        return self._next(self.results, GOOD)

    @staticmethod
    def _next(results: list[T | Exception], otherwise: T) -> T:
        found = results.pop(0) if results else otherwise
        if isinstance(found, Exception):
            raise found
        return found


@dataclasses.dataclass
class Site:
    """One agent and what it was told to do."""

    ledger: LedgerFolder
    told: Told = dataclasses.field(default_factory=Told)
    now: datetime = NOW
    reports: list[Entry] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = TaskEngine(
            self.ledger, {"execution": self.told}, "boot 2", lambda: self.now, self.reports.append
        )

    async def run(self, entry: Entry) -> TaskRecord:
        """Return how it ended, which is also what was written down and told last."""
        ended = await self.engine.run(entry)
        self.ledger.reload()
        assert self.ledger.entries["uid"] == ended == self.reports[-1]
        return ended.record


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    tree = Tree(str(tmp_path))
    yield Site(LedgerFolder(tree))
    tree.close()


def step(name: str, **more: Any) -> TaskStep:
    return TaskStep(name=name, execution=ExecutionAction(argv=[name]), **more)


def task(*steps: TaskStep, known: tuple[StepRecord, ...] = (), **record: Any) -> Entry:
    spec = NodeTaskSpec(node_name="web1", steps=list(steps), deadline="2026-11-16T07:00:00Z", fencing_token=1)
    return Entry("t", spec, TaskRecord("uid", 1, steps=known or (StepRecord(),) * len(steps), **record))


def running(**more: Any) -> StepRecord:
    return StepRecord(StepPhase.RUNNING, 1, "boot 1", NOW, **more)


async def test_every_step_is_written_down_and_told_before_it_is_done_and_after(site: Site) -> None:
    site.told.results = [
        AttemptResult(True, "done", 0, changed=True, output="x" * OUTPUT_MAX + "end", evidence={"k": "v"})
    ]
    site.told.before = [b"how it was"]
    ended = await site.run(task(step("a", timeout="30s"), step("b")))
    assert [[one.phase for one in entry.record.steps] for entry in site.reports] == [
        ["Running", "Pending"], ["Succeeded", "Pending"], ["Succeeded", "Running"],
        ["Succeeded", "Succeeded"], ["Succeeded", "Succeeded"],
    ]  # fmt: skip
    assert site.reports[0].record.steps[0] == StepRecord(
        StepPhase.RUNNING, 1, "boot 2", NOW, inverse=b"how it was"
    )
    assert ended.steps[0] == StepRecord(
        StepPhase.SUCCEEDED,
        1,
        "boot 2",
        NOW,
        NOW,
        0,
        True,
        "done",
        ("x" * OUTPUT_MAX + "end")[3:],
        {"k": "v"},
    )
    assert (ended.phase, ended.ended_at, ended.message) == (TaskPhase.SUCCEEDED, NOW, "")
    assert site.told.asked == ["prepare", "a", "prepare", "b", "clean"]
    assert [(one.key, one.timeout) for one in site.told.attempts] == [
        ("uid/a/1", 30.0), ("uid/b/1", TIMEOUT),
    ]  # fmt: skip
    assert site.told.attempts[0].known == site.reports[0].record.steps[0]


async def test_a_step_that_is_tried_again_still_knows_how_it_was_before_the_first(site: Site) -> None:
    site.told.before = [b"how it was", b"half done"]
    site.told.results = [dataclasses.replace(BAD, changed=True)]
    ended = await site.run(task(step("a", retries=1)))
    assert site.told.asked == ["prepare", "a", "a", "clean"]
    assert [one.key for one in site.told.attempts] == ["uid/a/1", "uid/a/2"]
    assert [entry.record.steps[0].inverse for entry in site.reports] == [b"how it was"] * 4 + [b""]
    assert ended.steps[0].changed
    assert ended.steps[0].attempts == 2


@pytest.mark.parametrize("error", [HostError("no room"), RunError("no room")])
async def test_a_step_that_cannot_note_how_it_was_is_not_done(site: Site, error: Exception) -> None:
    site.told.before = [error]
    ended = await site.run(task(step("a")))
    assert site.told.asked == ["prepare", "clean"]
    assert (ended.phase, ended.message) == (TaskPhase.FAILED, "step a failed: no room")
    assert (ended.steps[0].phase, ended.steps[0].attempts) == (StepPhase.FAILED, 1)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (HostError("no room"), "no room"),
        (RunError("no program"), "no program"),
        (ValueError("my secret"), "ValueError, see the log of the agent"),
    ],
)
async def test_whatever_goes_wrong_fails_the_step_only(site: Site, error: Exception, said: str) -> None:
    site.told.results = [error]
    ended = await site.run(task(step("a", on_failure="continue"), step("b")))
    assert (ended.steps[0].phase, ended.steps[0].message) == (StepPhase.FAILED, said)
    assert (ended.phase, ended.steps[1].phase) == (TaskPhase.SUCCEEDED, StepPhase.SUCCEEDED)


async def test_what_was_under_way_is_found_out_and_not_done_again(site: Site) -> None:
    """A later result knows more of how it was before than the note of the beginning."""
    site.told.results = [dataclasses.replace(BAD, inverse=b"found out")]
    known = running(inverse=b"noted", changed=True)
    ended = await site.run(task(step("a"), known=(known,)))
    assert site.told.asked == ["settle a", "clean"]
    assert site.told.attempts == [Attempt("uid/a/1", TIMEOUT, known)]
    assert site.reports[0].record.steps[0].inverse == b"found out"
    assert (ended.phase, ended.steps[0].message, ended.steps[0].changed) == (
        TaskPhase.FAILED, "it failed", True,
    )  # fmt: skip
    assert ended.steps[0].inverse == b""


async def test_what_was_done_is_taken_back_by_its_undo_or_by_what_was_noted(site: Site) -> None:
    site.told.before = [b"", b"how it was"]
    site.told.results = [GOOD, GOOD, BAD]
    ended = await site.run(task(step("a", undo=BACK), step("b"), step("c", on_failure="undo")))
    assert site.told.asked[-3:] == ["take back b", "back", "clean"]
    assert [one.key for one in site.told.attempts[-2:]] == ["uid/b/undo", "uid/a/undo"]
    undoing = [entry.record.steps[1] for entry in site.reports if entry.record.steps[1].phase == "Undoing"]
    assert [(one.boot_id, one.inverse) for one in undoing] == [("boot 2", b"how it was")]
    assert ended.phase is TaskPhase.UNDONE
    assert [one.phase for one in ended.steps] == ["Undone", "Undone", "Failed"]
    assert ended.steps[1].finished_at == NOW
    assert ended.message == "step c failed: it failed"


async def test_what_cannot_be_taken_back_halts_the_task_and_says_why(site: Site) -> None:
    site.told.results = [
        dataclasses.replace(BAD, message="m" * 2000),
        dataclasses.replace(BAD, message="stuck"),
    ]
    ended = await site.run(task(step("a", undo=BACK, on_failure="undo")))
    assert (ended.phase, ended.steps[0].phase) == (TaskPhase.HALTED, StepPhase.UNDO_FAILED)
    assert ended.steps[0].message == "stuck"
    assert max(len(entry.record.message) for entry in site.reports) == MAX_MESSAGE
    assert max(len(entry.record.steps[0].message) for entry in site.reports) == MAX_MESSAGE


@pytest.mark.parametrize(("undo", "asked"), [(BACK, "settle back"), (None, "take back a")])
async def test_an_undo_that_was_under_way_goes_on(site: Site, undo: TaskAction | None, asked: str) -> None:
    """Also long after the deadline: what was begun is brought to its end."""
    site.now = NOW + timedelta(days=1)
    known = StepRecord(StepPhase.UNDOING, 1, "boot 1", NOW, message="why", inverse=b"how it was")
    ended = await site.run(task(step("a", undo=undo), known=(known,), undoing=True, message="late"))
    assert site.told.asked == [asked, "clean"]
    assert site.told.attempts == [Attempt("uid/a/undo", TIMEOUT, known)]
    assert (ended.phase, ended.message) == (TaskPhase.UNDONE, "late")
    assert (ended.steps[0].phase, ended.steps[0].message) == (StepPhase.UNDONE, "why")


async def test_no_step_begins_once_the_task_was_deleted_or_is_late(site: Site) -> None:
    site.engine.withdrawn.add("uid")
    ended = await site.run(task(step("a"), step("b"), known=(running(), StepRecord())))
    assert site.told.asked == ["settle a", "clean"]
    assert site.told.attempts[0].barred == "the task was deleted"
    assert (ended.phase, ended.message) == (TaskPhase.FAILED, "the task was deleted before step b")
    site.engine.withdrawn.clear()
    site.now = NOW + timedelta(hours=1)
    ended = await site.run(task(step("a")))
    assert (ended.phase, ended.ended_at) == (TaskPhase.EXPIRED, site.now)


def test_a_task_that_is_not_gone_on_with_is_written_down_as_such(site: Site) -> None:
    known = running(inverse=b"how it was")
    site.engine.drop(task(step("a"), known=(known,)), TaskPhase.HALTED, "Forgotten", "look")
    site.ledger.reload()
    record = site.ledger.entries["uid"].record
    assert (record.phase, record.reason, record.message) == (TaskPhase.HALTED, "Forgotten", "look")
    assert (record.ended_at, record.steps[0].inverse) == (NOW, b"")
    assert site.reports == []


class Plain(Performer):
    """Says no more than every performer has to."""

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        return GOOD


async def test_a_performer_that_says_no_more_repeats_what_may_begin_and_takes_nothing_back() -> None:
    plain, attempt = Plain(), Attempt("uid/a/1", 1.0, running())
    assert not await plain.prepare(BACK)
    assert await plain.settle(BACK, attempt) == GOOD
    assert await plain.settle(BACK, dataclasses.replace(attempt, barred="late")) == INTERRUPTED
    assert not INTERRUPTED.succeeded
    assert not AttemptResult(succeeded=True).changed
    back = await plain.take_back(BACK, attempt)
    assert (back.succeeded, back.message) == (False, "cannot take back TaskAction")
    with pytest.raises(NotImplementedError):
        await Performer().perform(BACK, attempt)


async def test_a_held_host_pauses_before_a_step_and_goes_on_when_it_is_let_go(site: Site) -> None:
    held = ["is held by bob", "is held by bob", ""]
    site.engine.held = lambda: held.pop(0) if held else ""
    site.engine.wake = Woken()
    ended = await site.run(task(step("a")))
    assert [entry.record.paused for entry in site.reports] == [
        "paused before step a: is held by bob", "", "", "", "",
    ]  # fmt: skip
    assert site.told.asked == ["prepare", "a", "clean"]
    assert (ended.phase, ended.paused) == (TaskPhase.SUCCEEDED, "")


async def test_a_held_host_pauses_before_a_step_is_taken_back_and_settles_what_was_begun(site: Site) -> None:
    held = ["is held", ""]
    site.engine.held = lambda: held.pop(0) if held else ""
    site.engine.wake = Woken()
    site.told.results = [BAD]
    await site.run(task(step("a", undo=BACK, on_failure="undo"), known=(running(),)))
    paused = [entry.record.paused for entry in site.reports if entry.record.paused]
    assert paused == ["paused before taking back step a: is held"]
    assert site.told.asked == ["settle a", "back", "clean"]


async def test_a_task_that_is_paused_beyond_its_deadline_ends(site: Site) -> None:
    site.engine.held = lambda: "is held"
    site.engine.wake = Woken(lambda: setattr(site, "now", NOW + timedelta(hours=1)))
    ended = await site.run(task(step("a")))
    assert (ended.phase, site.told.asked) == (TaskPhase.EXPIRED, ["clean"])


class Woken(asyncio.Event):
    """Somebody has news as soon as one waits for them."""

    def __init__(self, news: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.news = news

    async def wait(self) -> Literal[True]:
        assert not self.is_set(), "old news are none"
        self.news()
        self.set()
        return True


class Stopped(Told):
    """Is at work when its agent is told to stop."""

    def __init__(self, *, unbroken: bool) -> None:
        super().__init__()
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.UNBROKEN = unbroken  # type: ignore[misc]

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        self.begun.set()
        await self.goes_on.wait()
        return self._tried("done", attempt)


@pytest.mark.parametrize(
    ("unbroken", "result", "phase"),
    [(True, GOOD, "Succeeded"), (True, BAD, "Running"), (False, GOOD, "Running")],
)
async def test_who_is_told_to_stop_waits_for_what_must_not_be_broken_off(
    site: Site, unbroken: bool, result: AttemptResult, phase: str
) -> None:
    """What failed then may have failed because of us, and is found out by the next process."""
    stopped = Stopped(unbroken=unbroken)
    stopped.results = [result]
    site.engine.performers = {"execution": stopped}
    running = asyncio.create_task(site.engine.run(task(step("a"))))
    await stopped.begun.wait()
    running.cancel()
    await asyncio.sleep(0)
    stopped.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    site.ledger.reload()
    assert site.ledger.entries["uid"].record.steps[0].phase == phase


async def test_what_changes_nothing_is_broken_off_when_its_task_is_deleted(site: Site) -> None:
    """Other tasks wait behind it, and nobody waits for its answer."""
    harmless = Stopped(unbroken=False)
    harmless.DROPPED = True  # type: ignore[misc]
    site.engine.performers = {"execution": harmless}
    running = asyncio.create_task(site.engine.run(task(step("a"))))
    await harmless.begun.wait()
    site.engine.wake.set()  # something else is new
    await asyncio.sleep(0)
    site.engine.withdrawn.add("uid")
    site.engine.wake.set()
    async with asyncio.timeout(90):
        ended = (await running).record
    assert (ended.phase, ended.steps[0].message) == (TaskPhase.FAILED, "the task was deleted")
    assert harmless.asked == ["prepare", "clean"], "it did not come to its end"


async def test_what_changes_nothing_comes_to_its_end_or_stops_with_the_agent(site: Site) -> None:
    harmless = Stopped(unbroken=False)
    harmless.DROPPED = True  # type: ignore[misc]
    site.engine.performers = {"execution": harmless}
    running = asyncio.create_task(site.engine.run(task(step("a"))))
    await harmless.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    harmless.goes_on.set()
    assert (await site.run(task(step("a")))).phase == TaskPhase.SUCCEEDED


async def test_how_packages_were_before_is_kept_of_what_may_be_taken_back_later(site: Site) -> None:
    packages = TaskStep(name="p", packages=PackagesAction(upgrade="all"))
    site.engine.performers = {"execution": site.told, "packages": site.told}
    for failing in (False, True):
        site.told.before = [b"before p", b"before a"]
        site.told.results = [GOOD, BAD if failing else GOOD]
        ended = await site.run(task(packages, step("a")))
        kept = [b"", b""] if failing else [b"before p", b""]
        assert [one.inverse for one in ended.steps] == kept
    assert site.ledger.inverse("uid", "p") == site.ledger.inverse("gone", "p") == b""
    site.told.before = [b"before p"]
    await site.run(task(packages))
    assert site.ledger.inverse("uid", "p") == b"before p"
    assert site.ledger.inverse("uid", "other") == b""


class Unlucky(MemoryPackages):
    """The first try fails, before or after it has changed anything."""

    def __init__(self, *, partly: bool) -> None:
        super().__init__({"app": "2", "base": "1"}, {"app": "1", "base": "1"})
        self.partly, self.tries = partly, 0

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        self.tries += 1
        if self.tries > 1 or self.partly:
            await super().upgrade_all(hold)
        if self.tries == 1:
            raise HostError("the mirror is away")


@pytest.mark.parametrize("partly", [False, True])
async def test_a_second_try_is_taken_back_to_what_was_before_the_first(site: Site, partly: bool) -> None:
    manager = Unlucky(partly=partly)
    site.told.results = [BAD]
    performers = {"packages": Packages(manager, tuple, contextlib.nullcontext), "execution": site.told}
    site.engine = dataclasses.replace(site.engine, performers=performers)
    up = TaskStep(name="up", packages=PackagesAction(upgrade="all"), retries=1)
    ended = await site.run(task(up, step("fails", on_failure="undo")))
    assert (ended.phase, manager.tries) == (TaskPhase.UNDONE, 2)
    assert manager.have == {"app": "1", "base": "1"}


async def test_what_was_taken_and_not_begun_before_the_window_closed_does_not_begin(site: Site) -> None:
    entry = task(step("a"), step("b"))
    spec = msgspec.structs.replace(entry.spec, not_after="2026-11-16T06:00:00Z")
    ended = await site.run(msgspec.structs.replace(entry, spec=spec))
    assert (ended.phase, ended.message) == (
        TaskPhase.EXPIRED, "the window closed at 2026-11-16T06:00:00Z before step a"
    )  # fmt: skip
    assert "a" not in site.told.asked


async def test_what_was_begun_goes_on_after_the_window(site: Site) -> None:
    done = StepRecord(StepPhase.SUCCEEDED, 1, "boot 1", NOW)
    entry = task(step("a"), step("b"), known=(done, StepRecord()))
    spec = msgspec.structs.replace(entry.spec, not_after="2026-11-16T06:00:00Z")
    assert (await site.run(msgspec.structs.replace(entry, spec=spec))).phase is TaskPhase.SUCCEEDED
