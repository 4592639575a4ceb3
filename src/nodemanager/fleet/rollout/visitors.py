"""Other work on hosts of a rollout that makes them unavailable, and maybe silent."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common.managednode import ManagedNode, is_silent, upgrading_since
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, Unreadable

LONGEST: Final = timedelta(hours=1)
"""After so long, a silent host counts as dead, even if it is still marked as being worked on."""


def of(node: ManagedNode, since: datetime | None, now: datetime | None) -> str:
    """Return what works on a host; empty = nothing, or the host was silent for too long, `since` then."""
    long = since is not None and now is not None and now - since >= LONGEST
    return "" if long and is_silent(node) else named(node)


def named(node: ManagedNode) -> str:
    """Return what is recorded as working on a host; empty = nothing."""
    claim = _claim(node)
    if isinstance(claim, Unreadable):
        return "some maintenance"
    visited = claim is not None and claim.holds
    if visited and claim is not None and claim.repairs:
        return f"the repair of {claim.object}"
    if visited and claim is not None and not claim.is_upgrade:
        return f"maintenance {claim.maintenance}"
    return "its upgrade" if visited or upgrading_since(node.status) else ""


def is_claimed(node: ManagedNode) -> bool:
    """Tell whether the operator works on a host, however long: it ends its visit at the timeout."""
    claim = _claim(node)
    return claim is not None and claim.holds


def _claim(node: ManagedNode) -> Claim | Unreadable | None:
    return claims.decode(node.metadata.annotations.get(ANNOTATION_VISIT))
