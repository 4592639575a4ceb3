"""A fifth kind of host resource, which exists in tests only: notes, each a file in one folder of the host.

    spec: {notes: [{name: greeting, text: hello}]}    ->    FOLDER/greeting

It is defined and registered here, and nothing in src knows of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.cli.views.describe.configset import COLUMNS, Columns
from nodemanager.host.apply import idle
from nodemanager.host.kind_parts import HostPart, HostParts, Work
from nodemanager.host.results import Outcome, Result, result
from nodemanager.host.stages import PARTS
from nodemanager.host.watches.by_kind import WATCHES
from nodemanager.host.watches.inbox import Concern
from nodemanager.host.watches.kind_watch import Hearing, KindWatch, Watches
from nodemanager.host.watches.paths import Interest
from nodemanager.kube.objects import ObjectMeta, Struct
from nodemanager.plan.desired import Desired
from nodemanager.plan.host_kinds import Declaring, DriftRule, HostKind, Metric, PlanInput
from nodemanager.plan.resources import FILE, ResourceId
from nodemanager.plan.stages import KINDS, HostKinds
from nodemanager.plan.steps import Noop, Step, Words

NOTE = "note"
Texts = Mapping[str, str | None]


class Note(Struct):
    """A note that somebody shall find on the host."""

    name: str = ""
    text: str = ""
    drift: str = ""


class NotedSpec(ConfigSetSpec):
    """What a ConfigSet would be if it could declare notes."""

    notes: list[Note] = []


def noted_set(name: str, **spec: Any) -> ConfigSet:
    """Return a ConfigSet that may declare notes, too."""
    return ConfigSet(metadata=ObjectMeta(name=name), spec=msgspec.convert(spec, NotedSpec))


# The half in plan


class WriteNote(Step, kw_only=True):
    """Write a note."""

    REPAIRS = True
    WORDS = Words("note", "noted")
    OPERATIONS = ("note",)

    text: str


def _plan(given: PlanInput, seen: Texts) -> list[Step]:
    steps: list[Step] = []
    for item in given.desired.items[NOTE]:
        name, text = item.declaration.name, item.declaration.text
        about: dict[str, Any] = {"id": item.id, "sources": item.sources}
        if seen[name] == text:
            steps.append(Noop(**about, reason="says so"))
        else:
            reason = "is not there" if seen[name] is None else "says something else"
            steps.append(WriteNote(**about, reason=reason, text=text))
    return steps


NOTES: HostKind[Note, list[str], Texts] = HostKind(
    name=NOTE,
    words=("note", "notes"),
    declaring=Declaring(field="notes", identify=lambda _set, note: ResourceId(NOTE, note.name)),
    needs=lambda given: [item.declaration.name for item in given.desired.items[NOTE]],
    plan=_plan,
    count=Metric("nodemanager_note_operations_total", "Notes written.", by="operation"),
    drift=DriftRule(),
    owning=None,
)

# The half in host and cli


class NoteWatch(KindWatch):
    """Hears of notes by inotify."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def paths(self, desired: Desired) -> Iterator[Interest]:
        for item in desired.items[NOTE]:
            yield Interest(str(self._folder / item.declaration.name), Concern((item.id,)))


class NoteTable:
    """Everything that has to be registered for hosts with notes in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        kinds = [more for one in KINDS for more in ([one, NOTES] if one.name == FILE else [one])]
        self.kinds = HostKinds(*kinds, spec=NotedSpec)
        self.parts: HostParts = {**PARTS, NOTE: HostPart(self._observe, self._apply)}
        self.watches: Watches = {**WATCHES, NOTE: self._watch}
        self.columns = {**COLUMNS, NOTE: Columns(("NAME", "TEXT"), lambda note: [note.name, note.text])}

    async def _observe(self, names: list[str], _work: Work) -> Texts:
        paths = {name: self._folder / name for name in names}
        return {name: path.read_text() if path.exists() else None for name, path in paths.items()}

    async def _apply(self, steps: Sequence[Step], _work: Work) -> list[Result]:
        return [self._write(one) if isinstance(one, WriteNote) else idle(one) for one in steps]

    def _write(self, step: WriteNote) -> Result:
        try:
            (self._folder / step.id.name).write_text(step.text)
        except OSError as error:
            return result(step, Outcome.FAILED, f"cannot write the note: {error.strerror}")
        return result(step, Outcome.CHANGED)

    def _watch(self, _hearing: Hearing) -> KindWatch:
        return NoteWatch(self._folder)
