"""Which hosts are asked next. They change nothing, so neither a window nor a budget is needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import ManagedNode, is_held, upgrading_since
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Unreadable
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import conditions

AT_ONCE: Final = 50
"""How many hosts may have an open question: each answer is a few writes."""
LASTS: Final = timedelta(minutes=2)
"""How long a host may wait before it begins with its answer."""
KEPT: Final = timedelta(hours=1)
"""How long a proposal and its answers are kept if the program that asked did not remove them."""
STEP: Final = "preview"
WORDS: Final = {
    Reason.HOST_GONE: "it has no ManagedNode any more",
    Reason.HOST_WITHOUT_AGENT: "its agent was never heard of; install it",
    Reason.HOST_SILENT: "its agent sends no sign of life; find out why",
    Reason.HOST_BUSY: "somebody works on it; ask again later",
    Reason.CLAIM_UNREADABLE: f"its annotation {ANNOTATION_VISIT} cannot be read; look at it",
    Reason.HOST_UPGRADING: "it is being upgraded; ask again later",
    Reason.HOST_HELD: "it is held; ask again after `nodemanager unhold`",
}
"""Why hosts cannot answer, and what a person can do."""


class PreviewRound(NamedTuple):
    """What has to be done now."""

    ask: list[str]
    unasked: dict[str, Reason]
    """Hosts that cannot answer now, and why."""
    complete: bool
    """Whether no host is left to ask after that."""


def turn(
    hosts: Sequence[str],
    ended: Mapping[str, bool],
    unasked: Collection[str],
    known: Mapping[str, ManagedNode],
) -> PreviewRound:
    """Return the hosts to ask next; `ended` has the hosts that were asked, and whether each has answered."""
    room = AT_ONCE - sum(not one for one in ended.values())
    waiting = [host for host in dict.fromkeys(hosts) if host not in ended and host not in unasked]
    ask: list[str] = []
    unfit_: dict[str, Reason] = {}
    for host in waiting:
        why = unfit(known.get(host))
        if why is not None:
            unfit_[host] = why
        elif len(ask) < room:
            ask.append(host)
    return PreviewRound(ask, unfit_, len(ask) + len(unfit_) == len(waiting))


def unfit(host: ManagedNode | None) -> Reason | None:
    """Return why a host cannot answer now; None = it can.

    Where somebody is at work, another task would have to be newer than one that may not have begun yet.
    """
    if host is None:
        return Reason.HOST_GONE
    alive = conditions.get(host.status.conditions, node_conditions.ALIVE)
    if alive is None or (alive.status == conditions.UNKNOWN and host.status.heartbeat is None):
        return Reason.HOST_WITHOUT_AGENT
    claim = claims.decode(host.metadata.annotations.get(ANNOTATION_VISIT))
    if claim is not None and claim.holds:
        return claim.reason if isinstance(claim, Unreadable) else Reason.HOST_BUSY
    if alive.status != conditions.TRUE:
        return Reason.HOST_SILENT
    if upgrading_since(host.status) is not None:
        return Reason.HOST_UPGRADING
    return Reason.HOST_HELD if is_held(host) else None
