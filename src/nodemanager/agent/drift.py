"""Tells drift from news: a change that repairs what held before was made by somebody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodemanager.api.managednode import DriftRecord
from nodemanager.host.results import Outcome, Result
from nodemanager.plan.desired import Content, Contents, Desired
from nodemanager.plan.resources import EXEC, ResourceId

_REPAIRS = frozenset(
    ("InstallPackage", "RemovePackage", "WriteFile", "SetAttributes", "MakeDirectory", "MakeLink",
     "RemovePath", "ChangeService")
)  # fmt: skip
"""Deeds that put something back; a restart or a run does not."""


Declared = tuple[object, str]


@dataclass(slots=True)
class DriftWatch:
    """Remembers how each resource was declared when it last held."""

    _held: dict[ResourceId, Declared] = field(default_factory=dict)

    def judge(self, declared: Mapping[ResourceId, Declared], results: Sequence[Result]) -> list[Result]:
        """Return the results with those marked that are about drift.

        `declared` is what `declarations` made of this pass.
        """
        judged = []
        for one in results:
            same = one.id in declared and self._held.get(one.id) == declared[one.id]
            drifted = same and one.id.kind != EXEC and one.deed in (*_REPAIRS, "Blocked")
            drifted = drifted and one.outcome is not Outcome.UNCHANGED
            judged.append(replace(one, drifted=True) if drifted else one)
        bad = {one.id for one in results if one.outcome in (Outcome.FAILED, Outcome.BLOCKED)}
        kept = {
            one: self._held[one] for one in bad if one in self._held and self._held[one] == declared.get(one)
        }
        self._held = {one: value for one, value in declared.items() if one not in bad} | kept
        return judged


def records(results: Sequence[Result], now: str) -> list[DriftRecord]:
    """Return what there is to report of the drifts that were repaired."""
    return [
        DriftRecord(
            time=now, resource=str(one.id), outcome="repaired", message=one.message,
            took=f"{one.seconds * 1000:.1f}ms",
        )
        for one in results
        if one.drifted and one.outcome is Outcome.CHANGED
    ]  # fmt: skip


def declarations(desired: Desired, contents: Contents) -> dict[ResourceId, Declared]:
    """Return for each resource how it is declared; of a file, also the digest of what it shall contain."""
    found: dict[ResourceId, Declared] = {}
    for item in desired.files:
        content = contents.get(item.declaration.path)
        digest = content.digest if isinstance(content, Content) else ""
        found[item.id] = (item.declaration, digest)
    found.update({one.id: (one.declaration, "") for one in desired.packages})
    found.update({one.id: (one.declaration, "") for one in desired.services})
    return found
