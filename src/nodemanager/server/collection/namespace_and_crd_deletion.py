"""Finishes the deletion of namespaces and CustomResourceDefinitions: their objects have to go first."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.hub import Hub
from nodemanager.server.kinds import crds
from nodemanager.server.kinds.builtin_kinds import CRDS, NAMESPACES
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import deletion, stored, storing
from nodemanager.server.verbs.delete_options import DeleteOptions
from nodemanager.server.verbs.internal_requests import call_about
from nodemanager.store.base import StoreError, StoreRecord

LOG = logging.getLogger(__name__)


async def finish_forever(hub: Hub) -> None:
    """Try again whenever a write may have brought a deletion further, until cancelled."""
    for kind in (NAMESPACES, CRDS):
        for record in hub.store.list(kind.prefix()).records:
            if stored.load(kind, record)["metadata"].get("deletionTimestamp"):
                hub.ending.add(record.key)
    while True:
        hub.swept.clear()
        await finish_all(hub)
        await hub.swept.wait()


async def finish_all(hub: Hub) -> None:
    """Bring the deletion of every namespace and definition as far as it can get now."""
    for key in sorted(hub.ending):
        record = hub.store.get(key)
        if record is None:
            hub.ending.discard(key)
            continue
        try:
            if key.startswith(NAMESPACES.prefix()):
                await _finish_namespace(hub, stored.load(NAMESPACES, record))
            else:
                await _finish_definition(hub, stored.load(CRDS, record))
        except (errors.StatusError, StoreError, TimeoutError, LookupError, TypeError, ValueError) as error:
            # The next write tries again; a deletion that is stuck must not keep the others from ending.
            LOG.warning("cannot finish the deletion of %s: %s: %s", key, type(error).__name__, error)


async def _finish_namespace(hub: Hub, namespace: Untyped) -> None:
    name = namespace["metadata"]["name"]
    left = 0
    for kind in hub.catalogue.namespaced_stores():
        left += await _empty(hub, kind, name)
    if not left:
        await _release(hub, NAMESPACES, name, lambda obj: obj["spec"].pop("finalizers", None))


async def _finish_definition(hub: Hub, definition: Untyped) -> None:
    name, left = definition["metadata"]["name"], 0
    for kind in hub.catalogue.defined_by(name)[:1]:
        left += await _empty(hub, kind, "")
    if not left:
        # The collector asks for owners by their kind, so the kind must be served until it has looked.
        await hub.collected(hub.store.revision)
        await _release(hub, CRDS, name, _drop_cleanup)


def _drop_cleanup(obj: Untyped) -> None:
    meta = obj["metadata"]
    meta["finalizers"] = [one for one in meta.get("finalizers") or [] if one != crds.CLEANUP]


async def _empty(hub: Hub, kind: ServedKind, namespace: str) -> int:
    """Delete all objects of a kind; return how many are held by finalizers."""
    left = 0
    for record in hub.store.list(kind.prefix(namespace)).records:
        obj = stored.load(kind, record)
        # Also what is being deleted already: its time of grace ends with its namespace.
        call = call_about("delete", kind, obj)
        deleted = await deletion.delete_one(hub, call, record, DeleteOptions(grace=0))
        left += not deleted.gone
    return left


async def _release(hub: Hub, kind: ServedKind, name: str, release: Callable[[Untyped], object]) -> None:
    record = hub.store.get(kind.key("", name))
    if record is None:
        return
    obj = stored.load(kind, record)
    before = stored.dump(kind, obj)
    release(obj)
    if not obj["metadata"].get("finalizers"):
        obj["metadata"].pop("finalizers", None)
    await _store(hub, kind, record, (before, obj))


async def _store(hub: Hub, kind: ServedKind, record: StoreRecord, change: tuple[bytes, Untyped]) -> None:
    before, obj = change
    meta = obj["metadata"]
    if not meta.get("finalizers") and not (kind is NAMESPACES and obj["spec"].get("finalizers")):
        await storing.remove(hub, call_about("delete", kind, obj), record)
        return
    after = stored.dump(kind, obj)
    if after != before:
        await hub.store.update(record.key, after, record.revision)
