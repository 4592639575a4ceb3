"""What hosts are asked before a run, where somebody wants to know what its upgrades would do.

Nothing is changed. So neither a window nor a budget is looked at, only whether a host can answer now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from nodemanager.api.maintenance.task_steps import PreviewAction, TaskStep
from nodemanager.fleet.maintenance.claims import Unreadable
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.steps import RunWork
from nodemanager.fleet.series import HostGroup

MAX_HOSTS: Final = 100
"""How many hosts are asked, from the beginning of the plan: they are asked at once."""
LASTS: Final = timedelta(minutes=10)
"""How long a host may wait before it begins with its answer."""
KEPT: Final = timedelta(hours=1)
"""How long an answer is kept."""
STEP: Final = "preview"
ALL: Final = "all"
_REQUEST: Final = re.compile(r"([0-9a-f]{64}) ([a-z0-9]{1,16})")


class PreviewRequest(NamedTuple):
    """What somebody asked for."""

    plan_hash: str
    id: str

    def text(self) -> str:
        """Return the value of the annotation."""
        return f"{self.plan_hash} {self.id}"


class Asked(NamedTuple):
    """Which hosts are asked, and which are not."""

    hosts: tuple[str, ...]
    """In the order of the plan."""
    unfit: Mapping[str, Reason]
    """Hosts that cannot answer now, and why."""
    beyond: tuple[str, ...] = ()
    """Hosts beyond the highest number that is asked."""


def request_of(text: str) -> PreviewRequest | None:
    """Return the request in an annotation; None if it is not one of ours."""
    found = _REQUEST.fullmatch(text)
    return None if found is None else PreviewRequest(found[1], found[2])


def steps(work: RunWork) -> tuple[TaskStep, ...]:
    """Return the steps of a run that a host can preview; empty = none can be previewed."""
    wanted = {step.packages.upgrade for step in work.steps if step.packages is not None} - {""}
    if not wanted:
        return ()
    what = ALL if ALL in wanted else wanted.pop()
    return (TaskStep(name=STEP, preview=PreviewAction(packages=what), timeout="5m"),)


def asked(groups: Sequence[HostGroup], hosts: Mapping[str, HostFacts]) -> Asked:
    """Return which hosts are asked."""
    named = [host for group in groups for host in group.hosts if host in hosts]
    unfit = {host: why for host in named if (why := _unfit(hosts[host])) is not None}
    fit = [host for host in named if host not in unfit]
    return Asked(tuple(fit[:MAX_HOSTS]), unfit, tuple(fit[MAX_HOSTS:]))


def _unfit(host: HostFacts) -> Reason | None:
    """Return why a host cannot answer now.

    Where somebody is at work, another task would have to be newer than one that may not have begun yet.
    """
    if host.health.alive is None:
        return Reason.HOST_WITHOUT_AGENT
    if host.works:
        return host.claim.reason if isinstance(host.claim, Unreadable) else Reason.HOST_BUSY
    if not host.health.alive:
        return Reason.HOST_SILENT
    if host.health.upgrading:
        return Reason.HOST_UPGRADING
    return Reason.HOST_HELD if host.health.held else None
