"""Which records follow from what was last recorded of an object, and what is seen of it now."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.audit.record import HOST, OPERATOR, Actor, Record, RecordedObject
from nodemanager.fleet.audit.aspects import LABELS, LEAVING, SPEC
from nodemanager.fleet.audit.observed import ACCOUNTS, Aspect, ObservedObject, SeenObject
from nodemanager.kube.objects import Struct

_WANTED = (SPEC, LABELS, LEAVING)
"""Aspects that people write; the others are decisions of the operator and reports of hosts."""


class ObjectId(NamedTuple):
    """The identity of an object; one of the same name that was made later has another uid."""

    kind: str
    namespace: str
    name: str


class LastRecorded(NamedTuple):
    """The last record of an object."""

    object: RecordedObject
    host: str
    values: dict[str, str]
    """The values by aspect."""

    @property
    def uid(self) -> str:
        """The uid, which tells objects of the same name apart."""
        return self.object.uid


class _Packed(Struct, array_like=True):
    """The same in less memory, without the fields of `ObjectId`: each object of the fleet has one."""

    uid: str
    generation: int
    spec_digest: str
    change: str
    host: str
    values: dict[str, str]


_DECODER: Final = msgspec.msgpack.Decoder(_Packed)


class RecordMemory:
    """The last record of every object, rebuilt from the records themselves."""

    def __init__(self) -> None:
        self.since = ""
        """When the oldest record that still exists was written."""
        self._known: dict[ObjectId, bytes] = {}

    def __iter__(self) -> Iterator[ObjectId]:
        return iter(list(self._known))

    def get(self, which: ObjectId) -> LastRecorded | None:
        """Return what is known of an object."""
        if (packed := self._known.get(which)) is None:
            return None
        found = _DECODER.decode(packed)
        about = RecordedObject(
            kind=which.kind,
            namespace=which.namespace,
            name=which.name,
            uid=found.uid,
            generation=found.generation,
            spec_digest=found.spec_digest,
            change=found.change,
        )
        return LastRecorded(about, found.host, found.values)

    def note(self, records: Iterable[Record]) -> None:
        """Remember records, in their order."""
        for one in records:
            self.since = self.since or one.time
            about = one.object
            if not about.uid:
                continue  # about the log itself
            if one.chain is not None:
                continue  # about a host's own chain: `chain_merging` knows these
            which = ObjectId(sys.intern(about.kind), sys.intern(about.namespace), about.name)
            if one.verb in ("delete", "revoke"):
                self._known.pop(which, None)
                continue
            known = self.get(which)
            if known is None or known.uid != about.uid:
                known = LastRecorded(about, one.host, {})
            if about.labels:
                known.values[LABELS] = about.labels
            if one.to:
                known.values[one.aspect] = one.to
            else:
                known.values.pop(one.aspect, None)
            packed = _Packed(
                uid=about.uid,
                generation=about.generation,
                spec_digest=about.spec_digest,
                change=about.change,
                host=known.host,
                values=known.values,
            )
            self._known[which] = msgspec.msgpack.encode(packed)


def is_same(old: ObservedObject, new: ObservedObject) -> bool:
    """Tell whether a change causes no record."""
    if old.packed == new.packed:
        return True
    before, now = old.seen, new.seen
    if before is None or now is None:
        return False
    same = before.object.uid == now.object.uid and before.told == now.told
    return same and _values(before) == _values(now)


def _values(seen: SeenObject) -> dict[str, str]:
    return {name: aspect.value for name, aspect in seen.aspects.items()}


def records_of(
    known: LastRecorded | None, seen: SeenObject | None, since: str, at: str, late: bool
) -> list[Record]:
    """Return the records of a change; `since` is when the log began, `late` = it was noticed later."""
    found: list[Record] = []
    if known is not None and (seen is None or seen.object.uid != known.uid):
        found.append(
            Record(
                time=at,
                verb="revoke" if known.object.kind == ACCOUNTS.kind else "delete",
                aspect=SPEC,
                object=known.object,
                host=known.host,
                late=late,
            )
        )
        known = None
    if seen is None:
        return found
    values = known.values if known is not None else {}
    for name, aspect in seen.aspects.items():
        before = values.get(name, "")
        if before != aspect.value and (name != LABELS or known is not None):
            found.append(
                _changed(seen, name, aspect, before, _verb(seen, name, aspect, known, since), at, late)
            )
    for name in values:
        if name not in seen.aspects:
            ended = Aspect(verb="resume" if name.startswith("wait/") else "clear", host=seen.host)
            found.append(_changed(seen, name, ended, values[name], ended.verb, at, late))
    return found


def _verb(seen: SeenObject, name: str, aspect: Aspect, known: LastRecorded | None, since: str) -> str:
    if name != SPEC:
        return aspect.verb
    if known is not None:
        return "update"
    # An object from before the log began was made by somebody whom the log did not see.
    made = "admit" if seen.object.kind == ACCOUNTS.kind else "create"
    return made if since and seen.created >= since else "observe"


def _changed(
    seen: SeenObject, name: str, aspect: Aspect, before: str, verb: str, at: str, late: bool
) -> Record:
    if name in _WANTED or name == "approval":
        actor = seen.actor
    elif aspect.by is not None:
        actor = aspect.by
    elif aspect.by_host:
        actor = Actor(name=aspect.host, known=HOST)
    else:
        actor = Actor(name="nodemanager-operator", known=OPERATOR)
    about = seen.object
    if name == SPEC and not before and LABELS in seen.aspects:  # a new object has labels from the beginning
        about = msgspec.structs.replace(about, labels=seen.aspects[LABELS].value)
    return Record(
        time=at,
        actor=actor,
        verb=verb,
        aspect=name,
        object=about,
        host=aspect.host or seen.host,
        from_=before,
        to=aspect.value,
        reason=aspect.reason,
        message=aspect.message,
        gates=aspect.gates,
        plan_hash=aspect.plan_hash,
        approval=aspect.approval,
        step=aspect.step,
        evidence_digest=aspect.evidence_digest,
        late=late,
    )
