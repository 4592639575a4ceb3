"""Objects of our kinds as the audit log sees them: who wrote them, and digests of the rest."""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeVar

import msgspec

from nodemanager.api import kinds
from nodemanager.api.audit import actors
from nodemanager.api.audit.actors import GROUP
from nodemanager.api.audit.record import FIELD_MANAGER, Actor, RecordedGate, RecordedObject, RecordedStep
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.api.edge.edgeprofile import GROUP as EDGE
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.kube.core import SERVICE_ACCOUNTS
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

T = TypeVar("T")
ACCOUNTS: Final = SERVICE_ACCOUNTS
"""With the ServiceAccount of a host, an agent may join as that host; without one, no agent may."""


class ObservedMeta(ObjectMeta):
    """Metadata that include who wrote which fields."""

    managed_fields: list[dict[str, Any]] = []


class Aspect(Struct, array_like=True):
    """One fact about an object, and what a record says when the fact becomes true."""

    value: str = ""
    verb: str = ""
    reason: str = ""
    message: str = ""
    host: str = ""
    by_host: bool = False
    """Whether the host reports it; else the operator decided it."""
    by: Actor | None = None
    """Who did it, if that was not the writer of the object."""
    plan_hash: str = ""
    gates: list[RecordedGate] = []
    approval: str = ""
    step: RecordedStep | None = None
    evidence_digest: str = ""


class HostTold(Struct):
    """What a host reports about its own chain, and what a person accepted of it."""

    chain: AuditChain | None = None
    lines: list[str] = []
    accepted: str = ""


class SeenObject(Struct):
    """The parts of an object that are kept."""

    object: RecordedObject = RecordedObject()
    created: str = ""
    actor: Actor = Actor()
    """Who wrote the spec."""
    host: str = ""
    aspects: dict[str, Aspect] = {}
    told: HostTold | None = None
    """Set for hosts only."""


class _Packed(Struct, array_like=True):
    """The same in a shorter form: without field names, and without what the object's metadata say already."""

    kind: str
    uid: str
    generation: int
    spec_digest: str
    change: str
    created: str
    actor: tuple[str, list[str], str, str]
    host: str
    aspects: dict[str, Aspect]
    told: HostTold | None


class ObservedObject(Struct):
    """An object of any of our kinds."""

    metadata: ObservedMeta = ObservedMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")
    packed: bytes = msgspec.field(name="-", default=b"")
    """What was seen, in the place of spec and status, once it was looked at: this needs less memory."""

    @property
    def seen(self) -> SeenObject | None:
        """The parts that are kept; None = the object was not looked at."""
        if not self.packed:
            return None
        found = _DECODER.decode(self.packed)
        name, groups, known, claimed = found.actor
        about = RecordedObject(
            kind=found.kind,
            namespace=self.metadata.namespace,
            name=self.metadata.name,
            uid=found.uid,
            generation=found.generation,
            spec_digest=found.spec_digest,
            change=found.change,
        )
        actor = Actor(name=name, groups=groups, known=known, claimed=claimed)
        return SeenObject(
            object=about,
            created=found.created,
            actor=actor,
            host=found.host,
            aspects=found.aspects,
            told=found.told,
        )


_DECODER: Final = msgspec.msgpack.Decoder(_Packed)


def packed(seen: SeenObject) -> bytes:
    """Return what is kept of an object, in less memory."""
    about, actor = seen.object, seen.actor
    return msgspec.msgpack.encode(
        _Packed(
            kind=about.kind,
            uid=about.uid,
            generation=about.generation,
            spec_digest=about.spec_digest,
            change=about.change,
            created=seen.created,
            actor=(actor.name, actor.groups, actor.known, actor.claimed),
            host=seen.host,
            aspects=seen.aspects,
            told=seen.told,
        )
    )


def kinds_seen(*, edge: bool = False) -> list[Resource[ObservedObject]]:
    """Return all kinds of which changes are recorded: ours, but for those of the log itself, and accounts.

    Those of edge sites are among them where somebody asks for that: most operators have no site, and no right
    to look at one.
    """
    left_out = (GROUP,) if edge else (GROUP, EDGE)
    ours = [
        Resource(one.group, one.version, one.kind, one.plural, ObservedObject, one.namespaced)
        for one in (entry.resource for entry in kinds.KINDS)
        if one.group not in left_out
    ]
    return [*ours, Resource("", "v1", ACCOUNTS.kind, ACCOUNTS.plural, ObservedObject)]


def actor_of(kind: str, obj: ObservedObject) -> Actor:
    """Return who last wrote the spec of an object."""
    meta = obj.metadata
    told = {
        "annotations": meta.annotations,
        "generation": meta.generation,
        "managedFields": [one for one in meta.managed_fields if not one.get("subresource")],
    }
    if kind == ACCOUNTS.kind:  # the API adds no author to these, and people write no spec of them
        managers = [str(one.get("manager", "")) for one in meta.managed_fields]
        return Actor(name=actors.printable(next(iter(managers), ""), actors.MAX_MANAGER), known=FIELD_MANAGER)
    spec = msgspec.json.decode(obj.spec) if kind == MAINTENANCE_APPROVALS.kind else {}
    found = actors.who({"kind": kind, "metadata": told, "spec": spec})
    return Actor(name=found.name, groups=list(found.groups), known=found.known, claimed=found.claimed)


def object_of(kind: str, obj: ObservedObject) -> RecordedObject:
    """Return how a record names its object."""
    meta = obj.metadata
    return RecordedObject(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        spec_digest=digest_of(obj.spec),
        change=actors.printable(meta.annotations.get(actors.CHANGE), actors.MAX_CHANGE),
    )


def decoded(raw: msgspec.Raw, kind: type[T]) -> T:
    """Return a part of an object; raises msgspec.DecodeError."""
    return msgspec.json.decode(raw, type=kind)


def digest_of(raw: msgspec.Raw) -> str:
    """Return the SHA-256 of JSON, written with sorted keys."""
    value = msgspec.json.decode(raw)
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
