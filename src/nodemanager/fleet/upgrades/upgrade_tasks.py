"""What an upgrade is, whoever begins it: its steps, its slot, and whether host or operator begins it.

Where an operator is, it marks hosts whose upgrades it begins. Such a host asks in its status when a slot has
come, and gets a NodeTask; it begins nothing itself. The mark runs out: a host whose operator is gone for good
upgrades by itself again. A mark that has run out stays, and says whether the Node of the host was drained:
then the host has to be able to do so, too.
"""

from __future__ import annotations

import hashlib
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
"""How long a host that hears nothing from its operator leaves upgrades to it."""
LEASE_AFTERWARDS: Final = 2 * claims.GRACE
"""How much longer the Lease of the group lasts than its visit may: ending the visit may take so long."""

_DRAINS: Final = " drained"
_RUN: Final = "upgrade-%Y%m%dt%H%M%Sz"


def steps(*, reboots: bool) -> list[TaskStep]:
    """Return the steps of an upgrade; with `reboots`, the host reboots in every case."""
    when = RebootAction(when=ALWAYS if reboots else "ifNeeded")
    return [
        TaskStep(name="upgrade", packages=PackagesAction(upgrade=SYSTEM)),
        TaskStep(name="reboot", reboot=when, timeout="10m"),  # so long a shutdown may take
        TaskStep(name="prove", probe=ProbeAction(config_sets_hold=True), timeout="15m"),
    ]


def reboots_always(annotations: Mapping[str, str]) -> bool:
    """Tell whether a host reboots after every upgrade."""
    return annotations.get(ANNOTATION_REBOOT) == ALWAYS


def run_of(slot: datetime) -> str:
    """Return the name of the upgrade of a slot, as a label may have it."""
    return slot.astimezone(UTC).strftime(_RUN)


def slot_of_run(run: str) -> datetime | None:
    """Return the slot of an upgrade by its name; None = it has another kind of name."""
    try:
        return datetime.strptime(run, _RUN).replace(tzinfo=UTC)
    except ValueError:
        return None


def mark(until: datetime, *, drains: bool) -> str:
    """Return the mark of a host: until when, and whether the operator drains its Node."""
    return f"{times.rfc3339(until)}{_DRAINS if drains else ''}"


def renewed_before(uid: str) -> timedelta:
    """Return how long before its end the mark of a host is renewed: a different time for each host."""
    spread = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4]) / 2**32
    return MARKED * (0.25 + spread / 2)


def marked_until(annotations: Mapping[str, str]) -> datetime | None:
    """Return until when the operator begins the upgrades of a host; None = it does not begin them."""
    return times.parse(annotations.get(UPGRADES, "").removesuffix(_DRAINS))


def was_drained(annotations: Mapping[str, str]) -> bool:
    """Tell whether an operator drains the Node of a host, or did so until it went away."""
    return annotations.get(UPGRADES, "").endswith(_DRAINS)


def is_marked(annotations: Mapping[str, str], now: datetime) -> bool:
    """Tell whether the operator begins the upgrades of a host now."""
    until = marked_until(annotations)
    return until is not None and now < until


def visit_of(node: ManagedNode) -> Claim | None:
    """Return the visit of a host that is, or was, for its upgrade."""
    claim = claims.decode(node.metadata.annotations.get(VISIT))
    return claim if isinstance(claim, Claim) and claim.is_upgrade else None


def lent(node: ManagedNode, now: datetime) -> str:
    """Return the group whose Lease the operator holds for a host; empty = none.

    It holds none after the visit: the Lease is given back then, or has run out after the claim.
    """
    claim = visit_of(node)
    if claim is None or claim.state.is_end or now - claim.expires >= LEASE_AFTERWARDS:
        return ""
    return claim.group
