"""The answers of hosts, grouped where they are the same; and what they mean for the person who asked."""

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
    """Why a host gave no answer."""

    state: str
    """One word: the phase of its task, or a reason code."""
    message: str = ""


Answer = TaskPreview | Silence


class Group(NamedTuple):
    """Hosts with the same answer."""

    hosts: tuple[str, ...]
    preview: TaskPreview

    @property
    def more(self) -> int:
        """How many resources are not listed one by one."""
        return max(0, self.preview.changed + self.preview.blocked - len(self.preview.changes))


class GroupedAnswers(NamedTuple):
    """All answers, in groups."""

    groups: tuple[Group, ...]
    """The groups in which something would change or could not be done, the largest first."""
    unchanged: tuple[str, ...]
    silent: Mapping[str, Silence]
    """Hosts that were asked and gave no answer."""

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
        """The exit code, as that of a plan of one host.

        While a host gives no answer, it is never "no change".
        """
        if self.changed:
            return CHANGES
        return CANNOT if self.groups or self.silent else NO_CHANGES


def answer(task: NodeTask) -> Answer | None:
    """Return the answer in a task; None = there is none yet."""
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
    """Return the groups of answers; each host has an answer."""
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
            # Compare all of it: a digest is a claim of the host, and may be copied from another host.
            key = msgspec.json.encode(one)
            same = alike.get(key, Group((), one))
            alike[key] = Group((*same.hosts, host), same.preview)
    groups = sorted(alike.values(), key=lambda group: (-len(group.hosts), group.hosts))
    return GroupedAnswers(tuple(groups), tuple(unchanged), silent)
