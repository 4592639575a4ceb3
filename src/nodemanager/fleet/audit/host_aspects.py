"""What is recorded of hosts: visits, tokens, accounts, and what they report about their chains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodemanager.api.audit import actors
from nodemanager.api.audit.actors import TOKEN_ISSUED, TOKENS
from nodemanager.api.audit.record import FIELD_MANAGER, Actor
from nodemanager.api.common import node_conditions
from nodemanager.api.common.audit_chain import CHAIN_ACCEPTED, AuditChain
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.fleet.audit import observed
from nodemanager.fleet.audit.observed import Aspect, HostTold, ObservedObject
from nodemanager.fleet.maintenance import claims
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import Struct

MAX_ACCEPTED: Final = 90
Found = Iterator[tuple[str, Aspect]]

_VISIT_VERBS: Final = {
    claims.State.UNDOING: "undo",
    claims.State.UNDONE: "undo",
    claims.State.HALTED: "halt",
    claims.State.DONE: "end",
}


class _HasChain(Struct):
    """The part of a host's status about its own chain: its length and its state."""

    conditions: list[Condition] = []
    audit_chain: AuditChain | None = None
    audit_records: list[str] = []


def told(obj: ObservedObject) -> HostTold:
    """Return what a host reports about its own chain."""
    status = observed.decoded(obj.status, _HasChain)
    accepted = obj.metadata.annotations.get(CHAIN_ACCEPTED, "")
    return HostTold(status.audit_chain, status.audit_records, accepted[:MAX_ACCEPTED])


def of_host(obj: ObservedObject) -> Found:
    """Yield the token of a host, and the maintenance that visits it."""
    good = conditions.get(
        observed.decoded(obj.status, _HasChain).conditions, node_conditions.CREDENTIAL_RENEWED
    )
    if good is not None:
        until = good.message.partition(",")[0]
        yield "token", Aspect(value=until, verb="issue", host=obj.metadata.name, by_host=True)
    claim = claims.decode(obj.metadata.annotations.get(ANNOTATION_VISIT))
    if isinstance(claim, claims.Claim):
        first = claim.since == claim.begun
        verb = "start" if first else _VISIT_VERBS.get(claim.state, "advance")
        yield (
            "visit",
            Aspect(
                value=f"{claim.run}/{claim.attempt} {claim.state}",
                verb=verb,
                reason=str(claim.reason or ""),
                message=claim.object,
                host=obj.metadata.name,
            ),
        )
    elif claim is not None:
        yield (
            "visit",
            Aspect(value="unreadable", verb="advance", reason=str(claim.reason), host=obj.metadata.name),
        )


def of_account(obj: ObservedObject) -> Found:
    """Yield a join token that was issued for a host; it shows only in the annotation of the issuer."""
    issued = obj.metadata.annotations.get(TOKEN_ISSUED)
    if issued:
        until, _, by = issued.partition(" ")
        actor = Actor(name=TOKENS, known=FIELD_MANAGER, claimed=actors.printable(by, actors.MAX_CLAIM))
        yield "token", Aspect(value=f"good until {until[:40]}", verb="issue", by=actor)
