"""Decides what the garbage collector does with one object, and does it.

owners -> all absent: delete it | some alive: forget the others | of unknown kind: leave it alone
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.collection import ownership
from nodemanager.server.collection.ownership import Graph, Metadata, Reference
from nodemanager.server.collection.propagation import FOREGROUND, ORPHAN
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import NAMESPACES
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import deletion, internal_requests, stored, write
from nodemanager.server.verbs.delete_options import DeleteOptions
from nodemanager.server.verbs.options import WriteOptions
from nodemanager.store.base import StoreError, StoreRecord

LOG = logging.getLogger(__name__)
AT_ONCE = 16
"""How many writes are under way together: they share a commit, and requests come in between."""
_MANAGER = "garbage-collector"
_COMPONENT = "garbage-collector-controller"


class Unknown(Exception):
    """No decision is possible now: a kind is not served, or an owner cannot be read."""


class _NeverAnOwner(Exception):
    """An object outside of namespaces names an owner inside of one: Kubernetes never resolves that."""


@dataclass(slots=True)
class _Owners:
    """The owners of an object: there, gone, or waiting for their dependents to go first."""

    solid: list[Reference] = field(default_factory=list)
    dangling: list[Reference] = field(default_factory=list)
    waiting: list[Reference] = field(default_factory=list)


class _Found(NamedTuple):
    """An object as it is now."""

    kind: ServedKind
    record: StoreRecord
    meta: Metadata


class OwnerGcDecision:
    """Decides about single objects, and writes through the same steps as a client."""

    def __init__(self, hub: Hub, graph: Graph) -> None:
        self._hub = hub
        self._graph = graph

    async def attend(self, key: str) -> None:
        """Do what can be done about one object now; raises what any write raises, and Unknown."""
        found = self._find(key)
        if found is None:
            return
        meta = found.meta
        if meta.waits:
            # The graph gets changes later than the store. Until it knows that the object waits, it may not
            # know
            # all dependents either; when it does, it puts the object into the queue again.
            if meta.waits == self._graph.waits(key):
                await (self._orphan(found) if meta.waits == ORPHAN else self._foreground(found))
        elif meta.owner_references and not meta.deletion_timestamp:
            try:
                await self._judge(found)
            except _NeverAnOwner:
                LOG.debug("%s is outside of namespaces and names an owner inside of one", key)

    def _find(self, key: str) -> _Found | None:
        record = self._hub.store.get(key)
        if record is None:
            return None
        seen, catalogue = ownership.read(record), self._hub.catalogue
        kind = catalogue.named(seen.api_version, seen.kind) or catalogue.of_key(key)
        if kind is None:
            raise Unknown(f"{seen.api_version} {seen.kind}")
        return _Found(kind, record, seen.metadata)

    async def _orphan(self, owner: _Found) -> None:
        keys = self._graph.dependents(owner.meta.uid)
        for start in range(0, len(keys), AT_ONCE):
            some = keys[start : start + AT_ONCE]
            await asyncio.gather(*(self._disown(key, owner.meta.uid) for key in some))
        found = self._find(owner.record.key)  # read it again: an object that owns itself was changed above
        if found is not None and found.meta.uid == owner.meta.uid:
            await self._change(found, _without_finalizer(ORPHAN))

    async def _disown(self, key: str, owner: str) -> None:
        found = self._find(key)
        if found is not None:
            with contextlib.suppress(errors.NotFound):  # gone meanwhile, which is as good
                await self._change(found, _without_owners({owner}))

    async def _foreground(self, owner: _Found) -> None:
        if not self._graph.is_blocked(owner.meta.uid):
            await self._change(owner, _without_finalizer(FOREGROUND))
            return
        circle = self._graph.deadlocked(owner.record.key)
        if circle:
            await self._change(owner, _without_blocking(circle))

    async def _judge(self, found: _Found) -> None:
        meta, owners = found.meta, await self._classify(found.kind, found.meta)
        if owners.solid:
            gone = {one.uid for one in (*owners.dangling, *owners.waiting)}
            # An owner may be named twice, once with a wrong kind: then it is not gone.
            gone -= {one.uid for one in owners.solid}
            await self._change(found, _without_owners(gone))
            return
        # An owner that waits for us sees our own dependents go before us; otherwise our own
        # finalizers, if any, say what becomes of them.
        policy = "Foreground" if owners.waiting and self._graph.dependents(meta.uid) else ""
        options = DeleteOptions(uid=meta.uid, revision=str(found.record.revision), policy=policy)
        call = internal_requests.call("delete", found.kind, meta.namespace, meta.name)
        await deletion.delete_one(self._hub, call, found.record, options)

    async def _classify(self, kind: ServedKind, meta: Metadata) -> _Owners:
        found = _Owners()
        elsewhere: list[Reference] = []
        for one in meta.owner_references:
            owner_kind = self._hub.catalogue.named(one.api_version, one.kind)
            if owner_kind is None or "get" not in owner_kind.verbs:
                raise Unknown(f"{one.api_version} {one.kind}")
            owner = self._owner(owner_kind, meta.namespace, one)
            if owner is None and owner_kind.namespaced and self._is_elsewhere(owner_kind, one):
                elsewhere.append(one)
            if owner_kind.namespaced and not kind.namespaced:
                await self._report(kind, meta, elsewhere)
                raise _NeverAnOwner
            if owner is None:
                found.dangling.append(one)
            else:
                (found.waiting if owner.waits == FOREGROUND else found.solid).append(one)
        await self._report(kind, meta, elsewhere)
        return found

    def _owner(self, kind: ServedKind, namespace: str, reference: Reference) -> Metadata | None:
        if kind.namespaced and not namespace:
            return None
        record = self._hub.store.get(kind.key(namespace, reference.name))
        if record is None:
            return None
        owner = ownership.read(record).metadata
        if not owner.uid:
            raise Unknown(f"the uid of {record.key}")
        return owner if owner.uid == reference.uid else None

    def _is_elsewhere(self, kind: ServedKind, reference: Reference) -> bool:
        prefix = NAMESPACES.prefix()
        for record in self._hub.store.list(prefix).records:
            if self._owner(kind, record.key.removeprefix(prefix), reference) is not None:
                return True
        return False

    async def _report(self, kind: ServedKind, meta: Metadata, references: list[Reference]) -> None:
        """Leave an Event about owners that live in another namespace than what they own."""
        events = self._hub.catalogue.find("", "v1", "events")
        if events is None:
            return
        for one in references:
            event = _event(kind, meta, one, self._hub.timestamp())
            call = internal_requests.call("create", events, event["metadata"]["namespace"], "")
            try:
                await write.add(self._hub, call, event, _OPTIONS)
            except (errors.StatusError, StoreError) as error:
                # An Event is for people to read; without it the collection goes on.
                LOG.warning("cannot create an Event about %s %s: %s", kind.qualified_name, meta.name, error)

    async def _change(self, found: _Found, change: Callable[[Untyped], None]) -> None:
        kind, record = found.kind, found.record
        obj = stored.load(kind, record)
        meta = obj["metadata"]
        before = {key: meta.get(key) for key in ("finalizers", "ownerReferences")}
        change(meta)
        if all(meta.get(key) == value for key, value in before.items()):
            return
        call = internal_requests.call("update", kind, meta.get("namespace", ""), meta["name"])
        await write.save(self._hub, call, record, obj, _OPTIONS)


_OPTIONS = WriteOptions(dry_run=False, validation="Ignore", manager=_MANAGER, patch=True)


def _without_finalizer(name: str) -> Callable[[Untyped], None]:
    def change(meta: Untyped) -> None:
        _set(meta, "finalizers", [one for one in meta.get("finalizers") or [] if one != name])

    return change


def _without_owners(uids: set[str]) -> Callable[[Untyped], None]:
    def change(meta: Untyped) -> None:
        left = [one for one in meta.get("ownerReferences") or [] if one.get("uid") not in uids]
        _set(meta, "ownerReferences", left)

    return change


def _without_blocking(uids: set[str]) -> Callable[[Untyped], None]:
    def change(meta: Untyped) -> None:
        meta["ownerReferences"] = [
            {**one, "blockOwnerDeletion": False} if one.get("uid") in uids else one
            for one in meta.get("ownerReferences") or []
        ]

    return change


def _set(meta: Untyped, field: str, values: list[object]) -> None:
    if values:
        meta[field] = values
    else:
        meta.pop(field, None)


def _event(kind: ServedKind, meta: Metadata, owner: Reference, now: str) -> Untyped:
    about = {"kind": kind.kind, "apiVersion": kind.api_version, "name": meta.name, "uid": meta.uid}
    where = f"namespace: {meta.namespace}, name: {owner.name}, uid: {owner.uid}"
    text = (
        f'ownerRef [{owner.api_version}/{owner.kind}, {where}] does not exist in namespace "{meta.namespace}"'
    )
    return {
        "metadata": {
            "name": f"{meta.name}.{secrets.token_hex(8)}",
            "namespace": meta.namespace or "default",
        },
        "involvedObject": about | ({"namespace": meta.namespace} if meta.namespace else {}),
        "reason": "OwnerRefInvalidNamespace", "message": text, "type": "Warning", "count": 1,
        "source": {"component": _COMPONENT}, "reportingComponent": _COMPONENT, "reportingInstance": "",
        "firstTimestamp": now, "lastTimestamp": now,
    }  # fmt: skip
