"""Turns work on the host into records of its chain. Pure. They have no content and no secret, only digests.

Only those digests are in it that the status would tell, too: of files that everybody may read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from nodemanager.api.audit import record as records
from nodemanager.api.audit import step_digests
from nodemanager.api.audit.record import HOST, Actor, FileChange, Record, RecordedObject, RecordedStep
from nodemanager.api.common import choosing
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import DriftRecord
from nodemanager.api.maintenance.task_steps import TaskStep
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskRecord

AGENT: Final = Actor(name="agent", known=HOST)
APPLY, PRUNE, REPAIR, OBSERVE = "apply", "prune", "repair", "observe"
BEGIN, END, REPLACED = "begin", "end", "replaced"
_FILE: Final = "file:"
_ENDS: Final = (StepPhase.SUCCEEDED, StepPhase.FAILED, StepPhase.UNDONE, StepPhase.UNDO_FAILED)


def of_results(sets: Iterable[ConfigSet], results: Iterable[Result], actor: Actor = AGENT) -> list[Record]:
    """Return what a pass or a repair changed: a record for each ConfigSet, and one for what it took back.

    Foreign changes are not in it, because each drift has its own record.
    """
    by_name = {one.metadata.name: one for one in sets}
    found: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for one in results:
        if one.outcome is ResourceOutcome.CHANGED and not one.drifted:
            found[PRUNE if one.pruned else APPLY, one.sources[0] if one.sources else ""].append(one)
    return [
        Record(
            actor=actor, verb=verb, aspect="resources", object=_set(name, by_name.get(name)),
            to=_revision(by_name.get(name)), count=len(mine),
            message=", ".join(f"{one.id} {one.done}" for one in mine),
            files=list(files(mine)),
        )
        for (verb, name), mine in found.items()
    ]  # fmt: skip


def files(results: Iterable[Result]) -> Iterable[FileChange]:
    """Return the changed files, with digests of those that everybody may read."""
    for one in results:
        if str(one.id).startswith(_FILE):
            path = str(one.id).removeprefix(_FILE)
            yield FileChange(path=records.cut(path), before=one.found, after=one.wanted)


def _set(name: str, known: ConfigSet | None) -> RecordedObject:
    if known is None:
        return RecordedObject(kind="ConfigSet" if name else "", name=name)
    meta = known.metadata
    return RecordedObject("ConfigSet", meta.namespace, name, meta.uid, meta.generation)


def _revision(known: ConfigSet | None) -> str:
    revision = choosing.applied(known).revision if known is not None else 0
    return f"revision {revision}" if revision else ""


def of_drift(one: DriftRecord, count: int = 1) -> Record:
    """Return the record of a foreign change, and of what became of it."""
    changed = []
    if one.resource.startswith(_FILE):
        path = one.resource.removeprefix(_FILE)
        changed.append(FileChange(path=records.cut(path), before=one.found, after=one.wanted))
    return Record(
        actor=Actor(name="agent", known=HOST, claimed=one.by and f"changed by {one.by}"),
        verb=OBSERVE if one.outcome == "observed" else REPAIR,
        aspect=records.cut(one.resource),
        time=one.time,
        reason=one.outcome,
        files=changed,
        count=count,
    )


def of_task(name: str, steps: Sequence[TaskStep], before: TaskRecord | None, now: TaskRecord) -> list[Record]:
    """Return what is new about a task: its beginning, steps that ended, its end."""
    about = RecordedObject(kind="NodeTask", name=name, uid=now.uid)
    found = []
    begun = any(one.attempts for one in now.steps)
    if begun and not (before is not None and any(one.attempts for one in before.steps)):
        found.append(Record(actor=AGENT, verb=BEGIN, aspect="task", object=about, count=len(steps)))
    for place, (step, mine) in enumerate(zip(steps, now.steps, strict=False)):
        known = before.steps[place] if before is not None and place < len(before.steps) else StepRecord()
        if mine.phase in _ENDS and (mine.phase, mine.attempts) != (known.phase, known.attempts):
            found.append(_step(about, step, known, mine))
        elif step.reboot is not None and mine.phase is StepPhase.RUNNING and mine.attempts != known.attempts:
            reboot = RecordedStep(name=step.name, attempts=mine.attempts)
            found.append(
                Record(actor=AGENT, verb=BEGIN, aspect=f"step/{step.name}", object=about, step=reboot)
            )
    if now.phase.is_end and (before is None or not before.phase.is_end):
        old = str(before.phase) if before is not None else ""
        found.append(
            Record(actor=AGENT, verb=END, aspect="task", object=about, from_=old, to=str(now.phase),
                   reason=now.reason)
        )  # fmt: skip
    return found


def _step(about: RecordedObject, step: TaskStep, known: StepRecord, mine: StepRecord) -> Record:
    """Return the record of a step that ended.

    Its output and message are left out, as they may contain anything.
    """
    done = RecordedStep(step.name, step_digests.argv_digest(step), mine.exit_code, mine.attempts)
    return Record(
        actor=AGENT, verb=END, aspect=f"step/{step.name}", object=about, from_=str(known.phase),
        to=str(mine.phase), step=done, evidence_digest=records.digest(mine.evidence) if mine.evidence else "",
    )  # fmt: skip


def of_upgrade(reason: str, node: str) -> Record:
    """Return that an upgrade of this host, as its ManagedNode orders it, began or ended."""
    about = RecordedObject(kind="ManagedNode", name=node)
    verb = BEGIN if reason == "UpgradeStarted" else END
    return Record(actor=AGENT, verb=verb, aspect="upgrade", object=about, reason=reason)


def of_replaced(message: str) -> Record:
    """Return the record that the chain is not the one that was reported before."""
    return Record(actor=AGENT, verb=REPLACED, aspect="chain", message=message)
