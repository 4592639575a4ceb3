"""How the tries of hosts ended: a task, and the one that took it back, are one try."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from nodemanager.api.maintenance.nodetask import NOT_DONE, NodeTask
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.facts import SUCCEEDED

WELL: Final = ("", "Pending", "Running", SUCCEEDED)


class Try(NamedTuple):
    """One try of one host."""

    task: NodeTask
    undo: NodeTask | None = None
    """What took it back, because the host was not proven after it."""

    @property
    def phase(self) -> str:
        """How it ended: one that was taken back, or was not proven, has not succeeded."""
        phase = self.task.status.phase
        if self.undo is None:
            return "Halted" if phase == SUCCEEDED and self.not_done else phase
        done = self.undo.status.phase
        return {SUCCEEDED: "Undone"}.get(done, "Undoing" if done in WELL else "Halted")

    @property
    def message(self) -> str:
        """Why it ended so."""
        if self.undo is None:
            said = self.task.status.message
            if self.phase == self.task.status.phase:
                return said
            return f"its steps succeeded, its visit did not: {self.not_done}" + (f": {said}" if said else "")
        said = f": {self.undo.status.message}" if self.undo.status.message else ""
        return f"not proven afterwards, and taken back by {self.undo.metadata.name}{said}"

    @property
    def not_done(self) -> str:
        """Why its visit failed, as the operator noted, although all steps succeeded; empty = it did not."""
        return self.task.metadata.annotations.get(NOT_DONE, "")

    @property
    def went_wrong(self) -> bool:
        """Whether it has ended other than well."""
        return self.phase not in WELL


def tries(tasks: Iterable[NodeTask]) -> list[Try]:
    """Return what was tried, the first one first."""
    by_name = {task.metadata.name: task for task in tasks}
    found = [
        Try(task, by_name.get(claims.undo_name(name)))
        for name, task in by_name.items()
        if claims.taken_back(name) not in by_name
    ]
    return sorted(found, key=lambda one: (one.task.metadata.creation_timestamp or "", one.task.metadata.name))
