"""Creating and updating objects: everything between a decoded body and the store."""

from __future__ import annotations

from typing import Any

from nodemanager.api import errors
from nodemanager.api import server_side_apply as ssa
from nodemanager.api.json_values import copy_of
from nodemanager.api.objects import Untyped
from nodemanager.server import (
    bodies,
    machinery,
    metadata,
    owner_references,
    read,
    refusals,
    selection,
    stored,
    strategies,
)  # fmt: skip
from nodemanager.server.builtin_kinds import CRDS, POLICIES, POLICY_BINDINGS
from nodemanager.server.hub import Answer, Call, Change, Hub
from nodemanager.server.options import WriteOptions, given_options, write_options
from nodemanager.store.base import KeyExists, KeyMissing, Mismatch, Record

GENERATE_TRIES = 8
_SELF_CHECKED = (CRDS, POLICIES, POLICY_BINDINGS)
"""Kinds whose own checks say what the schema would say, in Kubernetes' words."""


async def create(hub: Hub, call: Call) -> Answer:
    """Answer a POST to a collection."""
    options = write_options(call, "CreateOptions")
    obj = bodies.read_object(call.body, call.content_type, call.kind)
    if call.kind.custom and obj["kind"] != call.kind.kind:
        raise _other_kind(call, obj)
    metadata.check_shape(obj, call.kind)
    if obj["metadata"].get("resourceVersion"):
        raise refusals.internal("resourceVersion should not be set on objects to be created")
    warnings = drop_unknown(call, obj, options, bodies.duplicates(call.body) if options.checks else [])
    warnings += owner_references.drop_duplicates(obj)
    return await add(hub, call, obj, options, warnings)


async def add(hub: Hub, call: Call, obj: Untyped, options: WriteOptions, warnings: tuple[str, ...]) -> Answer:
    """Store a new object, or only tell what would be stored."""
    kind, wanted = call.kind, copy_of(obj)
    for attempt in range(GENERATE_TRIES):
        obj = copy_of(wanted)
        metadata.begin(obj, kind, call.namespace, hub.timestamp())
        obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
        if kind.has_status:
            obj.pop("status", None)
        own(hub, call, obj, None, options)
        name = str(obj["metadata"].get("name", ""))
        change = await _admit(hub, call, obj, None, options)
        _refuse(call, obj, None)
        notes = (*warnings, *hub.validate(change))
        key = kind.key(call.namespace, name)
        if options.dry_run:
            if hub.store.get(key) is not None:
                raise refusals.exists(kind, name)
            return Answer(obj, 201, notes)
        try:
            record = await hub.store.create(key, stored.dump(kind, obj))
        except KeyExists as error:
            if wanted["metadata"].get("name") or attempt + 1 == GENERATE_TRIES:
                raise refusals.exists(kind, name) from error
            continue
        strategies.after_write(hub, kind, record)
        return Answer(read.shown(call, record), 201, notes)
    raise AssertionError("unreachable: the last try returns or raises")


async def update(hub: Hub, call: Call) -> Answer:
    """Answer a PUT to an object or to one of its subresources."""
    options = write_options(call, "UpdateOptions")
    obj = bodies.read_object(call.body, call.content_type, call.kind)
    metadata.check_shape(obj, call.kind)
    warnings = drop_unknown(call, obj, options, bodies.duplicates(call.body) if options.checks else [])
    warnings += owner_references.drop_duplicates(obj)
    _check_names(call, obj)
    record = read.find(hub, call)
    try:
        return await save(hub, call, record, obj, options, warnings)
    except Mismatch as error:
        raise refusals.modified(call.kind, call.info.name) from error


async def save(
    hub: Hub, call: Call, record: Record, obj: Untyped, options: WriteOptions, warnings: tuple[str, ...]
) -> Answer:
    """Replace the object of a record; Mismatch says that somebody else was faster."""
    kind, old = call.kind, stored.load(call.kind, record)
    _check_identity(call, obj, old, options)
    obj = _through_door(call, obj, old)
    obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
    metadata.carry_over(obj, old)
    obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    own(hub, call, obj, old, options)
    metadata.count_generation(obj, old, kind)
    change = await _admit(hub, call, obj, old, options)
    _refuse(call, obj, old)
    warnings = (*warnings, *hub.validate(change))
    if obj == old:
        return Answer(old, 200, warnings)
    if strategies.is_finished(kind, obj):
        if not options.dry_run:
            await remove(hub, call, record)
        return Answer(obj, 200, warnings)
    if options.dry_run:
        return Answer(obj, 200, warnings)
    try:
        saved = await hub.store.update(record.key, stored.dump(kind, obj), record.revision)
    except KeyMissing as error:
        raise refusals.not_found(kind, call.info.name) from error
    strategies.after_write(hub, kind, saved)
    return Answer(read.shown(call, saved), 200, warnings)


async def remove(hub: Hub, call: Call, record: Record) -> Record:
    """Take an object out of the store."""
    try:
        gone = await hub.store.delete(record.key, record.revision)
    except KeyMissing as error:
        raise refusals.not_found(call.kind, call.info.name) from error
    strategies.after_delete(hub, call.kind, gone)
    return gone


def drop_unknown(call: Call, obj: Untyped, options: WriteOptions, twice: list[str]) -> tuple[str, ...]:
    """Prune unknown fields; refuse them or return warnings, as the client asked."""
    texts = [f'duplicate field "{path}"' for path in twice]
    texts += [f'unknown field "{path}"' for path in machinery.of(call.kind).prune(obj)]
    if options.validation == "Strict" and texts:
        raise metadata.unfit(call.kind, f"strict decoding error: {', '.join(texts)}")
    notes = (call.kind.warning,) if call.kind.warning else ()
    return notes + (tuple(texts) if options.validation == "Warn" else ())


def own(hub: Hub, call: Call, obj: Untyped, old: Untyped | None, options: WriteOptions) -> None:
    """Fill in what the kind defaults, and write down who owns which field."""
    kind, tools = call.kind, machinery.of(call.kind)
    strategies.prepare(hub, kind, obj, old)
    tools.fill_in(obj)
    writer = tools.writer(options.manager, kind, hub.timestamp(), call.info.subresource)
    entries: list[Any]
    if options.applied is not None:
        entries = options.applied
    else:
        entries = ssa.update_managers(old, obj, writer, tools.merge_type)
    if old is not None:
        entries = ssa.keep_times(old, obj, entries)
    obj["metadata"].pop("managedFields", None)
    if entries:
        obj["metadata"]["managedFields"] = entries


def _check_names(call: Call, obj: Untyped) -> None:
    """Refuse an object that calls itself otherwise than the path does."""
    name, meta = call.info.name, obj["metadata"]
    if meta.setdefault("name", name) != name:
        raise errors.BadRequest(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    if call.namespace and meta.setdefault("namespace", call.namespace) != call.namespace:
        raise errors.BadRequest(
            f"the namespace of the object ({meta['namespace']}) does not match the namespace on the URL "
            f"({call.namespace})"
        )


def _check_identity(call: Call, obj: Untyped, old: Untyped, options: WriteOptions) -> None:
    """Refuse to write over another revision, or another incarnation, than the one meant."""
    kind, name, meta = call.kind, call.info.name, obj["metadata"]
    _check_names(call, obj)
    try:
        wanted = selection.revision_number(meta.get("resourceVersion", ""))
    except ValueError as error:
        raise refusals.internal(str(error)) from error
    was = old["metadata"]
    if not wanted and kind.custom and not options.patch:
        cause = refusals.value_invalid("metadata.resourceVersion", 0, "must be specified for an update")
        refused = refusals.invalid(kind, name, [cause])
        details = errors.StatusDetails(name=name, group=kind.group, kind=kind.plural, causes=[cause])
        text = refused.message.replace(kind.qualified_kind, kind.qualified_name, 1)
        raise errors.Invalid(text, details=details)
    if wanted and str(wanted) != was["resourceVersion"]:
        raise refusals.modified(kind, name)
    if meta.get("uid", was["uid"]) != was["uid"] and not options.patch:
        key = f"/registry/{kind.plural}/{call.namespace}/{name}".replace("//", "/")
        why = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {was['uid']}"
        )
        raise refusals.conflict(kind, name, why)


def _through_door(call: Call, obj: Untyped, old: Untyped) -> Untyped:
    """Return the object with only those changes that the resource or subresource lets through."""
    if call.info.subresource == "status":
        if not call.kind.custom:
            return {**obj, **_part(old, "spec")}
        meta = {**old["metadata"], **_part(obj["metadata"], "managedFields")}
        kept = {key: value for key, value in old.items() if key != "status"}
        return {**copy_of(kept), "metadata": copy_of(meta), **_part(obj, "status")}
    if call.info.subresource == "finalize":
        spec = {**(old.get("spec") or {}), "finalizers": (obj.get("spec") or {}).get("finalizers")}
        return {**copy_of(old), "spec": {key: value for key, value in spec.items() if value}}
    if call.kind.has_status:
        return {**{key: value for key, value in obj.items() if key != "status"}, **_part(old, "status")}
    return obj


def _part(obj: Untyped, key: str) -> Untyped:
    return {key: copy_of(obj[key])} if key in obj else {}


def _refuse(call: Call, obj: Untyped, old: Untyped | None) -> None:
    """Raise Invalid if anything about the object is wrong."""
    kind = call.kind
    causes = metadata.faults(obj, kind)
    if old is not None:
        causes = metadata.changes_refused(obj, old) + causes
    faults = machinery.of(kind).validate(obj, old)
    mistyped = [fault for fault in faults if fault.reason == "FieldValueTypeInvalid"]
    if mistyped and not kind.custom:
        raise metadata.unfit(kind, f"{mistyped[0].field}: {mistyped[0].message}")
    if kind in _SELF_CHECKED:
        faults = []
    elif not kind.custom:  # and so do those of metadata
        faults = [fault for fault in faults if not fault.field.startswith("metadata.")]
    causes += faults + strategies.faults(kind, obj, old)
    if causes:
        raise refusals.invalid(kind, str(obj["metadata"].get("name", "")), causes)


async def _admit(hub: Hub, call: Call, obj: Untyped, old: Untyped | None, options: WriteOptions) -> Change:
    name = str(obj["metadata"].get("name", ""))
    strategies.check_namespace(hub, call, name, creating=old is None)
    verb = "update" if old is not None else "create"
    change = Change(
        verb, call.kind, call.namespace, name, call.info.subresource, obj, old, call.user, options.dry_run,
        asked=call.info.verb, options=given_options(call, f"{verb.capitalize()}Options"),
    )  # fmt: skip
    for reviewer in hub.admission:
        await reviewer.review(change)
    return change


def _other_kind(call: Call, obj: Untyped) -> errors.Invalid:
    kind, found = call.kind, str(obj["kind"])
    name = str((obj.get("metadata") or {}).get("name", ""))
    cause = refusals.value_invalid("kind", found, f"must be {kind.kind}")
    details = errors.StatusDetails(name=name, group=kind.group, kind=found, causes=[cause])
    text = f'{found}.{kind.group} "{name}" is invalid: {cause.field}: {cause.message}'
    return errors.Invalid(text, details=details)
