"""How much the embedded API keeps of what a host writes, and which objects are a host's own.

The name of an object shows its owner, and the admission policy pins it for all that a host may create. So
what there is of each host can be counted at any time from the objects alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodemanager.api.common import configset
from nodemanager.api.rights.host_rights import DAEMONSET, MAX_EVENT_HOST, OPERATOR, PREFIX
from nodemanager.kube.rbac.identity import User, split_service_account
from nodemanager.server.access.quotas import QuotaLimits, QuotaOwner, QuotaRule

EVENTS: Final = "events"
OBJECTS: Final = "objects"
LIMITS: Final = {
    EVENTS: QuotaLimits(5_000, 12 * 2**20, 16 * 2**10, "Events", "they go an hour after they were written"),
    OBJECTS: QuotaLimits(64, 4 * 2**20, 3 * 2**19),
}
"""Events have a quota of their own: however many there are, a host goes on reporting how it is. All drifts
that an agent keeps for an API that is away fit in; one object may be as large as etcd takes."""


def host_of(user: User) -> tuple[str, str] | None:
    """Return namespace and name of the host that a user is, or None."""
    account = split_service_account(user.name)
    if account is None or not account[1].startswith(PREFIX):
        return None
    host = account[1].removeprefix(PREFIX)
    return None if host in ("", OPERATOR, DAEMONSET) else (account[0], host)


def owner(group: str, plural: str, namespace: str, name: str) -> QuotaOwner | None:
    """Return which host's an object is by its name, or None; whether there is such a host is not asked."""
    match group, plural:
        case "", "events":
            host = name.rpartition(".")[0]
        case "", "secrets" if name.startswith("wg-"):
            host = name.removeprefix("wg-").partition("-")[2]
        case "coordination.k8s.io", "leases" if name.startswith(PREFIX):
            host = name.removeprefix(PREFIX)
        case configset.GROUP, "managednodes":
            host = name
        case _:
            return None
    quota = EVENTS if plural == "events" else OBJECTS
    # The names of Events have no more of a host's name than this.
    return QuotaOwner(namespace, host[:MAX_EVENT_HOST], quota) if host else None


def rule(limits: Mapping[str, QuotaLimits] = LIMITS) -> QuotaRule:
    """Return the quotas of hosts as the server takes them."""
    return QuotaRule(limits, OBJECTS, lambda user: host_of(user) is not None, owner)
