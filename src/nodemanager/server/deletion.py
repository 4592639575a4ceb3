"""DELETE: preconditions, grace, finalizers; of one object or of a collection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from nodemanager.api import errors
from nodemanager.api.objects import Untyped
from nodemanager.server import bodies, crds, namespaces, read, refusals, stored, strategies, write
from nodemanager.server.builtin_kinds import CRDS
from nodemanager.server.hub import Answer, Call, Change, Hub
from nodemanager.store.base import Mismatch, Record

TRIES = 5
POLICIES = {"Foreground": "foregroundDeletion", "Orphan": "orphan", "Background": ""}
_TOLD_WHOLE = ("pods", "serviceaccounts")
"""Whose deletion is answered with what was deleted."""
_GRACE_MAX = 2**31


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete."""

    dry_run: bool = False
    uid: str = ""
    revision: str = ""
    grace: int | None = None
    policy: str = ""


def delete_options(call: Call) -> DeleteOptions:
    """Read and check the options of a deletion, from the body or else from the query."""
    given = _body(call)
    dry_run = given.get("dryRun") or ([call.query["dryRun"]] if call.query.get("dryRun") else [])
    policy = given.get("propagationPolicy") or call.query.get("propagationPolicy", "")
    orphan = given.get("orphanDependents", call.query.get("orphanDependents"))
    causes = []
    if dry_run not in ([], ["All"]):
        causes.append(refusals.value_unsupported("dryRun", dry_run, ("All",)))
    if policy and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(refusals.value_invalid("propagationPolicy", policy, why))
    elif policy and policy not in POLICIES:
        known = ("Foreground", "Background", "Orphan", "nil")
        causes.append(refusals.value_unsupported("propagationPolicy", policy, known))
    if causes:
        raise refusals.invalid_options("DeleteOptions", causes)
    if orphan in (True, "true"):
        policy = "Orphan"
    if policy in ("Foreground", "Orphan"):
        raise errors.BadRequest(
            f"propagationPolicy {policy} is not served: this API has no garbage collector of owned objects;"
            " delete what the object owns yourself, and leave the policy out"
        )
    only_if = given.get("preconditions") or {}
    if not isinstance(only_if, dict):
        raise errors.BadRequest("cannot read DeleteOptions: preconditions is not an object")
    uid, revision = str(only_if.get("uid") or ""), str(only_if.get("resourceVersion") or "")
    return DeleteOptions(bool(dry_run), uid, revision, _grace(given, call), policy)


def _body(call: Call) -> dict[str, Any]:
    if not call.body.strip():
        return {}
    try:
        given = bodies.decode(call.body, call.content_type)
    except ValueError as error:
        raise errors.BadRequest(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(given, dict) or given.get("kind", "DeleteOptions") != "DeleteOptions":
        raise errors.BadRequest("cannot read the body: it is not a DeleteOptions")
    return given


def _grace(given: dict[str, Any], call: Call) -> int | None:
    grace = given.get("gracePeriodSeconds", call.query.get("gracePeriodSeconds"))
    if grace is None:
        return None
    text = str(grace)
    if isinstance(grace, bool) or not text.lstrip("-").isdecimal() or abs(int(text)) > _GRACE_MAX:
        raise errors.BadRequest(f"cannot read gracePeriodSeconds: {text[:20]!r} is not a number of seconds")
    return max(1, int(text)) if int(text) < 0 else int(text)


async def delete(hub: Hub, call: Call) -> Answer:
    """Answer a DELETE of one object."""
    options = delete_options(call)
    if not call.kind.custom and call.kind.plural == "namespaces":
        namespaces.check_deletion(call.info.name)
    record = read.find(hub, call)
    obj, gone = await delete_one(hub, call, record, options)
    if not gone or (call.kind.plural in _TOLD_WHOLE and not call.kind.custom):
        return Answer(obj)
    details = {"name": call.info.name, "group": call.kind.group, "kind": call.kind.plural}
    details["uid"] = obj["metadata"]["uid"]
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
    return Answer(body)


async def delete_one(hub: Hub, call: Call, record: Record, options: DeleteOptions) -> tuple[Untyped, bool]:
    """Delete an object, or mark it; return it as it is now, and whether it is gone."""
    for _ in range(TRIES):
        obj = stored.load(call.kind, record)
        _check(call, obj, options)
        change = Change(
            "delete", call.kind, call.namespace, call.info.name, "", None, obj, call.user, options.dry_run
        )
        for reviewer in hub.admission:
            await reviewer.review(change)
        marked = _marked(hub, call, obj, options)
        try:
            return await _carry_out(hub, call, record, (obj, marked), dry_run=options.dry_run)
        except Mismatch as error:
            record = error.current
    raise refusals.modified(call.kind, call.info.name)


async def _carry_out(
    hub: Hub, call: Call, record: Record, states: tuple[Untyped, Untyped], *, dry_run: bool
) -> tuple[Untyped, bool]:
    obj, marked = states
    if strategies.is_finished(call.kind, marked):
        if not dry_run:
            removed = await write.remove(hub, call, record)
            marked, obj = (_at(one, removed.revision) for one in (marked, obj))
        return (obj if call.kind.plural == "serviceaccounts" else marked), True
    if marked == obj or dry_run:
        return marked, False
    saved = await hub.store.update(record.key, stored.dump(call.kind, marked), record.revision)
    strategies.after_write(hub, call.kind, saved)
    return stored.load(call.kind, saved), False


def _at(obj: Untyped, revision: int) -> Untyped:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def _check(call: Call, obj: Untyped, options: DeleteOptions) -> None:
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


def _marked(hub: Hub, call: Call, obj: Untyped, options: DeleteOptions) -> Untyped:
    """Return the object as one that is being deleted."""
    meta = dict(obj["metadata"])
    marked = {**obj, "metadata": meta}
    finalizers = [one for one in meta.get("finalizers") or [] if one not in POLICIES.values()]
    had = [one for one in meta.get("finalizers") or [] if one in POLICIES.values()]
    finalizers += ([POLICIES[options.policy]] if POLICIES[options.policy] else []) if options.policy else had
    if not call.kind.custom and call.kind.plural == CRDS.plural and not meta.get("deletionTimestamp"):
        finalizers.append(crds.CLEANUP)
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = list(dict.fromkeys(finalizers))
    grace = _grace_of(call, obj, options)
    if not meta.get("deletionTimestamp"):
        at = hub.now() + timedelta(seconds=grace)
        meta["deletionTimestamp"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        if not _is_namespace(call):
            meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1
    elif grace < meta.get("deletionGracePeriodSeconds", 0):
        meta["deletionGracePeriodSeconds"] = grace
    if _is_namespace(call):
        marked["status"] = {**(obj.get("status") or {}), "phase": namespaces.TERMINATING}
    return marked


def _is_namespace(call: Call) -> bool:
    return not call.kind.custom and call.kind.plural == "namespaces"


def _grace_of(call: Call, obj: Untyped, options: DeleteOptions) -> int:
    """Return how long the object stays: only a pod that runs somewhere is given time."""
    if call.kind.custom or call.kind.plural != "pods":
        return 0
    spec = obj.get("spec") or {}
    phase = (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)


async def delete_collection(hub: Hub, call: Call) -> Answer:
    """Answer a DELETE of everything that selectors choose."""
    options = delete_options(call)
    listed = read.page(hub, call)
    for item in listed.items:
        meta = item["metadata"]
        info = replace(call.info, name=meta["name"], namespace=meta.get("namespace", ""))
        one = replace(call, info=info)
        record = hub.store.get(one.key)
        if record is not None:
            try:
                await delete_one(hub, one, record, options)
            except errors.NotFound:
                continue  # somebody else was faster, and that is fine here
    return Answer(listed.as_list(call.kind))
