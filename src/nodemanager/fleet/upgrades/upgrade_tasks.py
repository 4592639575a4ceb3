"""What an upgrade is, whoever begins it: its steps, the slot that it is for, and who says that it may begin.

Where an operator is, it marks hosts whose upgrades it begins. Such a host asks in its status when a slot has
come, and gets a NodeTask; it begins nothing itself. The mark runs out: a host whose operator is gone for good
upgrades by itself again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from nodemanager.api.common.managednode import ANNOTATION_REBOOT, ManagedNode
from nodemanager.api.maintenance.nodetask import UPGRADES, VISIT
from nodemanager.api.maintenance.task_steps import SYSTEM, PackagesAction, ProbeAction, RebootAction, TaskStep
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.kube import times

ALWAYS: Final = "always"
MARKED: Final = timedelta(days=2)
"""For how long a host leaves its upgrades to an operator that it hears nothing of."""

_RUN: Final = "upgrade-%Y%m%dt%H%M%Sz"


def steps(*, reboots: bool) -> list[TaskStep]:
    """Return the steps of an upgrade; with `reboots`, the host reboots in any case."""
    when = RebootAction(when=ALWAYS if reboots else "ifNeeded")
    return [
        TaskStep(name="upgrade", packages=PackagesAction(upgrade=SYSTEM)),
        TaskStep(name="reboot", reboot=when, timeout="10m"),  # so long it may take to go down
        TaskStep(name="prove", probe=ProbeAction(config_sets_hold=True), timeout="15m"),
    ]


def reboots_always(annotations: Mapping[str, str]) -> bool:
    """Tell whether a host reboots after every upgrade."""
    return annotations.get(ANNOTATION_REBOOT) == ALWAYS


def run_of(slot: datetime) -> str:
    """Return what the upgrade of a slot is called, as a label may have it."""
    return slot.astimezone(UTC).strftime(_RUN)


def slot_of_run(run: str) -> datetime | None:
    """Return the slot that an upgrade is called after; None = it is called otherwise."""
    try:
        return datetime.strptime(run, _RUN).replace(tzinfo=UTC)
    except ValueError:
        return None


def marked_until(annotations: Mapping[str, str]) -> datetime | None:
    """Return until when the operator begins the upgrades of a host; None = it does not."""
    return times.parse(annotations.get(UPGRADES))


def is_marked(annotations: Mapping[str, str], now: datetime) -> bool:
    """Tell whether the operator begins the upgrades of a host now."""
    until = marked_until(annotations)
    return until is not None and now < until


def visit_of(node: ManagedNode) -> Claim | None:
    """Return the visit of a host that is, or was, for its upgrade."""
    claim = claims.decode(node.metadata.annotations.get(VISIT))
    return claim if isinstance(claim, Claim) and claim.is_upgrade else None


def lent(node: ManagedNode) -> str:
    """Return the group whose Lease the operator holds for a host; empty = none."""
    claim = visit_of(node)
    return claim.group if claim is not None and claim.holds else ""
