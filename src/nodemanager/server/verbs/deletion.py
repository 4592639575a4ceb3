"""DELETE: preconditions, grace, finalizers; of one object or of a collection."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from nodemanager.kube import errors, times
from nodemanager.kube.objects import Untyped
from nodemanager.server.collection import propagation
from nodemanager.server.http import refusals
from nodemanager.server.hub import AdmissionRequest, ApiAnswer, ApiCall, Hub
from nodemanager.server.kinds import builtin_behaviour, namespaces
from nodemanager.server.kinds.builtin_kinds import NAMESPACES
from nodemanager.server.verbs import read, stored, storing
from nodemanager.server.verbs.delete_options import DeleteOptions, delete_options
from nodemanager.store.base import KeyMissing, Mismatch, StoreRecord

TRIES = 5
_TOLD_WHOLE = ("pods", "serviceaccounts")
"""Kinds whose deletion is answered with the object and not with a Status."""


class DeletedObject(NamedTuple):
    """An object as it is now, and whether it is gone."""

    obj: Untyped
    gone: bool
    warnings: tuple[str, ...] = ()


async def delete(hub: Hub, call: ApiCall) -> ApiAnswer:
    """Answer a DELETE of one object."""
    options = delete_options(call)
    record = read.find(hub, call)
    obj, gone, warnings = await delete_one(hub, call, record, options)
    if not gone or (call.kind.plural in _TOLD_WHOLE and not call.kind.custom):
        # Kubernetes answers 202 only if `orphanDependents: false`, the old option, was sent.
        return ApiAnswer(obj, 202 if not gone and options.orphan is False else 200, warnings=warnings)
    details = {"name": call.info.name, "group": call.kind.group, "kind": call.kind.plural}
    details["uid"] = obj["metadata"]["uid"]
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
    return ApiAnswer(body, warnings=warnings)


async def delete_one(hub: Hub, call: ApiCall, record: StoreRecord, options: DeleteOptions) -> DeletedObject:
    """Delete an object, or mark it; return it as it is now, and whether it is gone."""
    if call.kind is NAMESPACES:
        namespaces.check_deletion(call.info.name)
    for _ in range(TRIES):
        obj = stored.load(call.kind, record)
        check_preconditions(call, obj, options)
        change = AdmissionRequest(
            "delete", call.kind, call.namespace, call.info.name, "", None, obj, call.user, options.dry_run,
            asked=call.info.verb, options=options.shown(),
        )  # fmt: skip
        for reviewer in hub.admission:
            await reviewer.review(change)
        warnings = hub.validate(change)
        marked = _marked(hub, call, obj, options)
        try:
            now, gone = await _carry_out(hub, call, record, (obj, marked), dry_run=options.dry_run)
        except Mismatch as error:
            record = error.current
        else:
            return DeletedObject(now, gone, warnings)
    raise refusals.modified(call.kind, call.info.name)


async def _carry_out(
    hub: Hub, call: ApiCall, record: StoreRecord, states: tuple[Untyped, Untyped], *, dry_run: bool
) -> tuple[Untyped, bool]:
    obj, marked = states
    if builtin_behaviour.is_finished(call.kind, marked):
        if not dry_run:
            removed = await storing.remove(hub, call, record)
            marked, obj = (_at(one, removed.revision) for one in (marked, obj))
        was_marked = "deletionTimestamp" in obj["metadata"]
        return (obj if was_marked or call.kind.plural == "serviceaccounts" else marked), True
    if marked == obj or dry_run:
        return marked, False
    try:
        saved = await hub.store.update(record.key, stored.dump(call.kind, marked), record.revision)
    except KeyMissing as error:
        raise refusals.not_found(call.kind, call.info.name) from error
    builtin_behaviour.after_write(hub, call.kind, saved)
    return stored.load(call.kind, saved), False


def _at(obj: Untyped, revision: int) -> Untyped:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def check_preconditions(call: ApiCall, obj: Untyped, options: DeleteOptions) -> None:
    """Refuse to delete another incarnation, or another revision, than the one meant."""
    meta = obj["metadata"]
    if options.uid and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise refusals.conflict(call.kind, call.info.name, why, of_kind=True)
    if options.revision and options.revision != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.revision}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise refusals.conflict(call.kind, call.info.name, why, of_kind=True)


def _marked(hub: Hub, call: ApiCall, obj: Untyped, options: DeleteOptions) -> Untyped:
    """Return the object as one that is being deleted."""
    meta = dict(obj["metadata"])
    marked = {**obj, "metadata": meta}
    running = meta.get("deletionGracePeriodSeconds", 0)
    if running and (options.grace is None or options.grace >= running):
        return obj  # while the grace runs, only a request for a shorter one counts
    grace = _grace_of(call, obj, options)
    finalizers = propagation.finalizers(call.kind, obj, options)
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers
    if not meta.get("deletionTimestamp"):
        at = hub.now() + timedelta(seconds=grace)
        meta["deletionTimestamp"] = times.rfc3339(at)
        if call.kind is not NAMESPACES:
            meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1
    elif grace < running:
        meta["deletionGracePeriodSeconds"] = grace
    if call.kind is NAMESPACES:
        marked["status"] = {**(obj.get("status") or {}), "phase": namespaces.TERMINATING}
    return marked


def _grace_of(call: ApiCall, obj: Untyped, options: DeleteOptions) -> int:
    """Return how long the object stays: only a pod that runs somewhere is given time."""
    if call.kind.custom or call.kind.plural != "pods":
        return 0
    spec = obj.get("spec") or {}
    phase = (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)


async def delete_collection(hub: Hub, call: ApiCall) -> ApiAnswer:
    """Answer a DELETE of everything that selectors choose."""
    listed = read.page(hub, call)
    options = delete_options(call)
    warnings: list[str] = []
    for listed_record in listed.records:
        meta = stored.load(call.kind, listed_record)["metadata"]
        info = replace(call.info, name=meta["name"], namespace=meta.get("namespace", ""))
        one = replace(call, info=info)
        record = hub.store.get(one.key)
        if record is not None:
            try:
                warnings += (await delete_one(hub, one, record, options)).warnings
            except errors.NotFound:
                continue  # another writer was faster, which is fine here
    return ApiAnswer(listed.as_list(call), warnings=tuple(dict.fromkeys(warnings)))
