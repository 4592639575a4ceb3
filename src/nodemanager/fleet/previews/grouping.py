"""What hosts answered, told together where they say the same; and what that means for whoever asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.maintenance.nodetask import NodeTask, is_ended
from nodemanager.api.maintenance.task_previews import TaskPreview
from nodemanager.fleet.previews.asking import STEP

SUCCEEDED: Final = "Succeeded"
UNANSWERED: Final = "Unanswered"
TOO_OLD: Final = "TooOld"
NO_CHANGES: Final = 0
CANNOT: Final = 1
CHANGES: Final = 2


class Silence(NamedTuple):
    """Why a host says nothing."""

    state: str
    """One word: the phase of its task, or a reason code."""
    message: str = ""


Answer = TaskPreview | Silence


class Group(NamedTuple):
    """Hosts that say the same."""

    hosts: tuple[str, ...]
    preview: TaskPreview

    @property
    def more(self) -> int:
        """How many resources there are that are not told one by one."""
        return max(0, self.preview.changed + self.preview.blocked - len(self.preview.changes))


class GroupedAnswers(NamedTuple):
    """What there is to tell."""

    groups: tuple[Group, ...]
    """Those where something would change or could not be, the largest first."""
    unchanged: tuple[str, ...]
    silent: Mapping[str, Silence]
    """Hosts that were to be asked, and said nothing."""

    @property
    def asked(self) -> int:
        """How many hosts were to be asked."""
        return len(self.unchanged) + sum(len(one.hosts) for one in self.groups) + len(self.silent)

    @property
    def changed(self) -> bool:
        """Whether something would change."""
        return any(group.preview.changed for group in self.groups)

    @property
    def code(self) -> int:
        """The exit code: as that of a plan of one host. Where a host says nothing, nobody can say no."""
        if self.changed:
            return CHANGES
        return CANNOT if self.groups or self.silent else NO_CHANGES


def answer(task: NodeTask) -> Answer | None:
    """Return what a task says; None = nothing yet."""
    status = task.status
    if not is_ended(status):
        return None
    step = next((one for one in status.steps if one.name == STEP), None)
    if status.phase != SUCCEEDED or step is None:
        return Silence(status.phase, status.message)
    if step.preview is None:
        return Silence(TOO_OLD, "its agent does not know proposals; upgrade it")
    return step.preview


def late(task: NodeTask | None) -> Silence:
    """Return why a host has not answered in time."""
    if task is None:
        return Silence(UNANSWERED, "it was not its turn yet; wait longer, or ask fewer hosts")
    status = task.status
    return Silence(UNANSWERED, status.message or status.phase or "its agent has not taken the task")


def result(hosts: Sequence[str], answers: Mapping[str, Answer]) -> GroupedAnswers:
    """Return what is to be told of hosts, each of which has an answer."""
    alike: dict[bytes, Group] = {}
    unchanged: list[str] = []
    silent: dict[str, Silence] = {}
    for host in sorted(hosts):
        one = answers[host]
        if isinstance(one, Silence):
            silent[host] = one
        elif not (one.changed or one.blocked or one.changes):
            unchanged.append(host)
        else:
            # All of it: a digest is what a host claims, and may be copied from others.
            key = msgspec.json.encode(one)
            same = alike.get(key, Group((), one))
            alike[key] = Group((*same.hosts, host), same.preview)
    groups = sorted(alike.values(), key=lambda group: (-len(group.hosts), group.hosts))
    return GroupedAnswers(tuple(groups), tuple(unchanged), silent)
