"""Index of the owners of objects by uid, kept equal to the store by its events.

It holds only objects that have owners, and objects whose deletion waits for what they own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from nodemanager.server.collection.propagation import FOREGROUND, ORPHAN
from nodemanager.store.base import EventType, StoreEvent, StoreRecord

LOG = logging.getLogger(__name__)
NOT_COLLECTED = "/core/events/"
"""Events come in masses, own nothing and are not collected: Kubernetes leaves them out, too."""
DEADLOCK_SEARCH = 20_000
"""How many waiting objects are followed in search of a circle."""


class Reference(msgspec.Struct, frozen=True, rename="camel"):
    """One owner, as its dependent names it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an object's metadata that decides about its collection."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str = ""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Reference, ...] = ()

    @property
    def waits(self) -> str:
        """The finalizer of ours that holds a deletion, or nothing."""
        if not self.deletion_timestamp:
            return ""
        return ORPHAN if ORPHAN in self.finalizers else FOREGROUND if FOREGROUND in self.finalizers else ""


class OwnedObject(msgspec.Struct, frozen=True, rename="camel"):
    """An object without what does not matter here, which is never decoded."""

    metadata: Metadata
    api_version: str = ""
    kind: str = ""


_DECODER = msgspec.json.Decoder(OwnedObject)


def read(record: StoreRecord) -> OwnedObject:
    """Return what matters of a record; with metadata that makes no sense it owns nothing and has no owner."""
    try:
        return _DECODER.decode(record.value)
    except (msgspec.MsgspecError, RecursionError) as error:
        LOG.warning("cannot read the owners of %s, so it is never collected: %s", record.key, error)
        return OwnedObject(Metadata())


@dataclass(frozen=True, slots=True)
class _Node:
    uid: str
    references: tuple[Reference, ...]
    waits: str

    def owners(self) -> dict[str, bool]:
        """Return the uid of each owner, and whether the owner must wait for this object to go."""
        found: dict[str, bool] = {}
        for one in self.references:
            found[one.uid] = found.get(one.uid, False) or bool(one.block_owner_deletion)
        return found


class Graph:
    """The index. Objects are known by their keys in the store, owners by their uids."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._dependents: dict[str, dict[str, bool]] = {}
        self._waiting: dict[str, str] = {}

    def __len__(self) -> int:
        """How many objects are kept."""
        return len(self._nodes)

    def clear(self) -> None:
        """Forget everything."""
        self._nodes.clear()
        self._dependents.clear()
        self._waiting.clear()

    def waits(self, key: str) -> str:
        """Return the finalizer of ours that holds the deletion of an object, or nothing."""
        node = self._nodes.get(key)
        return node.waits if node is not None else ""

    def dependents(self, uid: str) -> list[str]:
        """Return the keys of the objects that name an owner."""
        return list(self._dependents.get(uid, ()))

    def is_blocked(self, uid: str) -> bool:
        """Tell whether an owner must stay until one of its dependents is gone."""
        return any(self._dependents.get(uid, {}).values())

    def apply(self, event: StoreEvent) -> list[str]:
        """Follow a change; return the keys of the objects that have to be decided about now."""
        if event.record.key.startswith(NOT_COLLECTED):
            return []
        meta = read(event.record).metadata
        if event.kind is EventType.DELETED:
            return [*self._put(event.record.key, None), *self.dependents(meta.uid)]
        return self._put(event.record.key, meta)

    def add(self, record: StoreRecord) -> list[str]:
        """Take in an object that was there before we began to follow; return as `apply` does."""
        return self.apply(StoreEvent(EventType.CREATED, record))

    def deadlocked(self, key: str) -> set[str]:
        """Return the owners that wait for an object which waits for them: a circle that would never end."""
        node = self._nodes.get(key)
        if node is None or node.waits != FOREGROUND:
            return set()
        reached: set[str] = set()
        ahead = [node.uid]
        while ahead and len(reached) < DEADLOCK_SEARCH:
            for uid in self._blockers_that_wait(ahead.pop()):
                if uid not in reached:
                    reached.add(uid)
                    ahead.append(uid)
        return {uid for uid, blocks in node.owners().items() if blocks and uid in reached}

    def _blockers_that_wait(self, uid: str) -> Iterator[str]:
        for key, blocks in self._dependents.get(uid, {}).items():
            if blocks and self._nodes[key].waits == FOREGROUND:
                yield self._nodes[key].uid

    def _put(self, key: str, meta: Metadata | None) -> list[str]:
        old, new = self._nodes.get(key), None
        if meta is not None and (meta.owner_references or meta.waits):
            new = _Node(meta.uid, meta.owner_references, meta.waits)
        if old == new:
            return []
        self._forget(key, old)
        self._remember(key, new)
        touched = self._released(old)
        if new is None:
            return touched
        starts = new.waits and (old is None or old.waits != new.waits)
        if starts or old is None or old.references != new.references:
            touched.append(key)
        if starts and new.waits == FOREGROUND:
            touched += self.dependents(new.uid)
        return touched

    def _released(self, old: _Node | None) -> list[str]:
        """Return the owners that waited for an object and now wait for nothing."""
        found = (self._waiting.get(uid) for uid in (old.owners() if old else ()) if not self.is_blocked(uid))
        return [key for key in found if key is not None]

    def _forget(self, key: str, node: _Node | None) -> None:
        if node is None:
            return
        del self._nodes[key]
        if self._waiting.get(node.uid) == key:
            del self._waiting[node.uid]
        for uid in node.owners():
            named = self._dependents[uid]
            del named[key]
            if not named:
                del self._dependents[uid]

    def _remember(self, key: str, node: _Node | None) -> None:
        if node is None:
            return
        self._nodes[key] = node
        if node.waits:
            self._waiting[node.uid] = key
        for uid, blocks in node.owners().items():
            self._dependents.setdefault(uid, {})[key] = blocks
