"""Store, the last step of a write; and the removal of objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.kube.json_values import same
from nodemanager.kube.objects import Untyped
from nodemanager.kube.patching import server_side_apply as ssa
from nodemanager.server.http import refusals
from nodemanager.server.hub import ApiAnswer, ApiCall, Hub
from nodemanager.server.kinds import builtin_behaviour
from nodemanager.server.verbs import read, stored
from nodemanager.server.verbs.pending_write import Live, PendingWrite
from nodemanager.store.base import KeyExists, KeyMissing, StoreRecord


async def store(write: PendingWrite) -> PendingWrite:
    """Keep the object, or only tell what a dry run would keep; Mismatch says that we lost a race."""
    obj = _as_stored(write)
    if write.live is None:
        return replace(write, obj=obj, answer=ApiAnswer(await _insert(write, obj), 201, write.warnings))
    if not write.kind.custom:
        ssa.keep_times(write.live.obj, obj)  # again, as now an empty field equals a missing one
    return replace(
        write, obj=obj, answer=ApiAnswer(await _replace(write, write.live, obj), 200, write.warnings)
    )


def _as_stored(write: PendingWrite) -> Untyped:
    kept = write.schema.as_stored(write.obj)
    if write.kind.custom and write.options.applied is not None:
        # An apply keeps unknown fields of open maps until here, so that they are validated, too.
        write.schema.prune(kept)
    return kept


async def _insert(write: PendingWrite, obj: Untyped) -> Any:
    """Store a new object and return what is shown of it."""
    hub, kind = write.hub, write.kind
    key = kind.key(write.call.namespace, write.name)
    if write.options.dry_run:
        if hub.store.get(key) is not None:
            raise _exists(write, key)
        return obj
    if str(obj["metadata"].pop("resourceVersion", "")).strip("0").isdecimal():
        raise refusals.internal("resourceVersion should not be set on objects to be created")
    data = stored.dump(kind, obj)
    if hub.quota is not None and hub.store.get(key) is None:
        hub.quota.check(write.call, key, len(data), None)
    try:
        record = await hub.store.create(key, data)
    except KeyExists as error:
        raise _exists(write, key) from error
    builtin_behaviour.after_write(hub, kind, record)
    return read.shown(write.call, record)


def _exists(write: PendingWrite, key: str) -> Exception:
    there = write.hub.store.get(key)
    return refusals.exists(write.kind, write.name, None if there is None else stored.load(write.kind, there))


async def _replace(write: PendingWrite, live: Live, obj: Untyped) -> Any:
    """Store a changed object and return what is shown of it; one that nothing holds any more is removed."""
    hub, kind, record = write.hub, write.kind, live.record
    if obj == live.obj and same(obj, live.obj):  # Python alone takes true for 1
        return live.obj
    if builtin_behaviour.is_finished(kind, obj):
        if not write.options.dry_run:
            await remove(hub, write.call, record)
        return obj
    if write.options.dry_run:
        return obj
    data = stored.dump(kind, obj)
    if hub.quota is not None:
        hub.quota.check(write.call, record.key, len(data), len(record.value))
    try:
        saved = await hub.store.update(record.key, data, record.revision)
    except KeyMissing as error:
        raise refusals.not_found(kind, write.call.info.name) from error
    builtin_behaviour.after_write(hub, kind, saved)
    return read.shown(write.call, saved)


async def remove(hub: Hub, call: ApiCall, record: StoreRecord) -> StoreRecord:
    """Take an object out of the store."""
    try:
        gone = await hub.store.delete(record.key, record.revision)
    except KeyMissing as error:
        raise refusals.not_found(call.kind, call.info.name) from error
    builtin_behaviour.after_delete(hub, call.kind, gone)
    return gone
