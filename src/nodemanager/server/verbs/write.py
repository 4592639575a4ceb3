"""Creating and updating objects: everything between a decoded body and the store."""

from __future__ import annotations

from typing import Any

from nodemanager.kube import errors
from nodemanager.kube.json_values import copy_of, same
from nodemanager.kube.objects import Untyped
from nodemanager.kube.patching import server_side_apply as ssa
from nodemanager.server.http import bodies, refusals
from nodemanager.server.hub import Answer, Call, Change, Hub
from nodemanager.server.kinds import builtin_behaviour, kind_schema, micro_times
from nodemanager.server.kinds.builtin_kinds import CRDS, POLICIES, POLICY_BINDINGS
from nodemanager.server.kinds.go_zero_values import Stage
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import metadata, owner_references, read, selection, stored
from nodemanager.server.verbs.options import WriteOptions, given_options, write_options
from nodemanager.store.base import KeyExists, KeyMissing, Mismatch, Record

GENERATE_TRIES = 8
_SELF_CHECKED = (CRDS, POLICIES, POLICY_BINDINGS)
"""Kinds whose own checks say what the schema would say, in Kubernetes' words."""
_METADATA_LAST = ("poddisruptionbudgets", "events")
"""New objects whose metadata is looked at only when the rest is right."""


async def create(hub: Hub, call: Call) -> Answer:
    """Answer a POST to a collection."""
    options = write_options(call, "CreateOptions")
    obj = bodies.read_object(call.body, call.content_type, call.kind)
    warnings = decode(call, obj, options)
    if call.kind.custom and obj["kind"] != call.kind.kind:
        raise _other_kind(call, obj)
    warnings += owner_references.drop_duplicates(obj)
    with refusals.warned(warnings):
        return await add(hub, call, obj, options, warnings)


async def add(hub: Hub, call: Call, obj: Untyped, options: WriteOptions, warnings: tuple[str, ...]) -> Answer:
    """Store a new object, or only tell what would be stored."""
    kind, wanted = call.kind, copy_of(obj)
    for attempt in range(GENERATE_TRIES):
        obj = copy_of(wanted)
        obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
        metadata.check_place(obj, call.namespace)
        fill_in(kind, obj, options)
        own(hub, call, obj, None, options)
        metadata.begin(obj, kind, call.namespace, hub.timestamp())
        if kind.has_status and not kind.keeps_status:
            obj.pop("status", None)
        builtin_behaviour.prepare(hub, kind, obj, None)
        kind_schema.of(kind).settle(obj)
        name = str(obj["metadata"].get("name", ""))
        change = await _admit(hub, call, obj, None, options)
        _refuse(call, obj, None)
        notes = _noted(hub, change)
        obj = _as_stored(kind, obj, options)
        is_last = bool(wanted["metadata"].get("name")) or attempt + 1 == GENERATE_TRIES
        with refusals.warned(notes):
            shown = await _insert(hub, call, kind.key(call.namespace, name), obj, dry_run=options.dry_run)
            if shown is not None:
                return Answer(shown, 201, (*warnings, *notes))
            if is_last:
                there = hub.store.get(kind.key(call.namespace, name))
                raise refusals.exists(kind, name, None if there is None else stored.load(kind, there))
    raise AssertionError("unreachable: the last try returns or raises")


async def _insert(hub: Hub, call: Call, key: str, obj: Untyped, *, dry_run: bool) -> Any:
    """Store a new object and return what is shown of it, or None when the name is taken."""
    if dry_run:
        return obj if hub.store.get(key) is None else None
    if str(obj["metadata"].pop("resourceVersion", "")).strip("0").isdecimal():
        raise refusals.internal("resourceVersion should not be set on objects to be created")
    data = stored.dump(call.kind, obj)
    if hub.quota is not None and hub.store.get(key) is None:
        hub.quota.check(call, key, len(data), None)
    try:
        record = await hub.store.create(key, data)
    except KeyExists:
        return None
    builtin_behaviour.after_write(hub, call.kind, record)
    return read.shown(call, record)


async def update(hub: Hub, call: Call) -> Answer:
    """Answer a PUT to an object or to one of its subresources."""
    options = write_options(call, "UpdateOptions")
    obj = bodies.read_object(call.body, call.content_type, call.kind)
    warnings = decode(call, obj, options) + owner_references.drop_duplicates(obj)
    with refusals.warned(warnings):
        check_names(call, obj)
        record = hub.store.get(call.key)
        if record is None and call.kind.upserts and not call.info.subresource:
            if uid := obj["metadata"].get("uid"):
                raise _other_incarnation(call, uid, "")
            if not options.dry_run:  # the store gives another one
                obj["metadata"].pop("resourceVersion", None)
            return await add(hub, call, obj, options, warnings)
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
    obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
    fill_in(kind, obj, options)
    own(hub, call, obj, old, options)
    obj = _through_door(call, obj, old)
    metadata.carry_over(obj, old)
    obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    builtin_behaviour.prepare(hub, kind, obj, old)
    ssa.keep_times(old, obj)
    metadata.count_generation(obj, old, kind)
    change = await _admit(hub, call, obj, old, options)
    _refuse(call, obj, old)
    warnings = (*warnings, *_noted(hub, change))
    obj = _as_stored(kind, obj, options)
    if not kind.custom:
        ssa.keep_times(old, obj)  # once more, now that empty and null are the same
    if obj == old and same(obj, old):  # Python alone takes true for 1
        return Answer(old, 200, warnings)
    if builtin_behaviour.is_finished(kind, obj):
        if not options.dry_run:
            await remove(hub, call, record)
        return Answer(obj, 200, warnings)
    if options.dry_run:
        return Answer(obj, 200, warnings)
    data = stored.dump(kind, obj)
    if hub.quota is not None:
        hub.quota.check(call, record.key, len(data), len(record.value))
    try:
        saved = await hub.store.update(record.key, data, record.revision)
    except KeyMissing as error:
        raise refusals.not_found(kind, call.info.name) from error
    builtin_behaviour.after_write(hub, kind, saved)
    return Answer(read.shown(call, saved), 200, warnings)


async def remove(hub: Hub, call: Call, record: Record) -> Record:
    """Take an object out of the store."""
    try:
        gone = await hub.store.delete(record.key, record.revision)
    except KeyMissing as error:
        raise refusals.not_found(call.kind, call.info.name) from error
    builtin_behaviour.after_delete(hub, call.kind, gone)
    return gone


def decode(call: Call, obj: Untyped, options: WriteOptions) -> tuple[str, ...]:
    """Bring an object that was sent into the form of its kind, and return warnings."""
    metadata.check_shape(obj, call.kind)
    if fault := kind_schema.of(call.kind).unfit(obj) or micro_times.normalize(call.kind, obj):
        raise metadata.unfit(call.kind, fault)
    warnings = drop_unknown(call, obj, options, bodies.duplicates(call.body) if options.checks else [])
    kind_schema.of(call.kind).settle(obj, Stage.SENT)
    return warnings


def drop_unknown(call: Call, obj: Untyped, options: WriteOptions, twice: list[str]) -> tuple[str, ...]:
    """Prune unknown fields; refuse them or return warnings, as the client asked."""
    texts = [f'duplicate field "{path}"' for path in twice]
    texts += [f'unknown field "{path}"' for path in kind_schema.of(call.kind).prune(obj)]
    if options.validation == "Strict" and texts:
        raise metadata.unfit(call.kind, f"strict decoding error: {', '.join(texts)}")
    notes = (call.kind.warning,) if call.kind.warning else ()
    return notes + (tuple(texts) if options.validation == "Warn" else ())


def fill_in(kind: ServedKind, obj: Untyped, options: WriteOptions) -> None:
    """Fill in what the kind defaults: whoever writes the object owns that, too."""
    applied = options.applied is not None
    kind_schema.of(kind).settle(obj, Stage.SENT)
    builtin_behaviour.fill_in(kind, obj)
    kind_schema.of(kind).fill_in(obj, keep_nulls=applied)


def own(hub: Hub, call: Call, obj: Untyped, old: Untyped | None, options: WriteOptions) -> None:
    """Write down who owns which field, before the server itself changes or drops any."""
    kind, tools = call.kind, kind_schema.of(call.kind)
    writer = tools.writer(options.manager, kind, hub.timestamp(), call.info.subresource)
    entries: list[Any]
    if options.applied is not None:
        entries = options.applied
    else:
        entries = ssa.update_managers(old, obj, writer, tools.merge_type)
    tools.settle(obj)
    obj["metadata"].pop("managedFields", None)
    if entries:
        obj["metadata"]["managedFields"] = entries


def _as_stored(kind: ServedKind, obj: Untyped, options: WriteOptions) -> Untyped:
    tools = kind_schema.of(kind)
    kept = tools.as_stored(obj)
    if kind.custom and options.applied is not None:
        tools.prune(kept)  # what is applied was let through where anything goes, and validated with it
    return kept


def check_names(call: Call, obj: Untyped) -> None:
    """Refuse an object that calls itself otherwise than the path does."""
    name, meta = call.info.name, obj["metadata"]
    metadata.check_place(obj, call.namespace)
    if not meta.get("name"):
        raise refusals.nameless(name)
    if meta["name"] != name:
        raise errors.BadRequest(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    if call.namespace:
        meta.setdefault("namespace", call.namespace)


def _check_identity(call: Call, obj: Untyped, old: Untyped, options: WriteOptions) -> None:
    """Refuse to write over another revision, or another incarnation, than the one meant."""
    kind, name, meta = call.kind, call.info.name, obj["metadata"]
    check_names(call, obj)
    was = old["metadata"]
    if meta.get("uid", was["uid"]) != was["uid"] and not options.patch:
        raise _other_incarnation(call, meta["uid"], was["uid"])
    try:
        wanted = selection.revision_number(meta.get("resourceVersion", ""))
    except ValueError as error:
        raise refusals.internal(str(error)) from error
    if not wanted and not kind.unconditional:
        cause = refusals.value_invalid("metadata.resourceVersion", 0, "must be specified for an update")
        refused = refusals.invalid(kind, name, [cause])
        details = errors.StatusDetails(name=name, group=kind.group, kind=kind.plural, causes=[cause])
        text = refused.message.replace(kind.qualified_kind, kind.qualified_name, 1)
        raise errors.Invalid(text, details=details)
    if wanted and str(wanted) != was["resourceVersion"]:
        raise refusals.modified(kind, name)


def _other_incarnation(call: Call, wanted: str, found: str) -> errors.Conflict:
    kind, name = call.kind, call.info.name
    key = f"/registry/{kind.plural}/{call.namespace}/{name}".replace("//", "/")
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return refusals.conflict(kind, name, why)


def _through_door(call: Call, obj: Untyped, old: Untyped) -> Untyped:
    """Return the object with only those changes that the resource or subresource lets through."""
    if call.info.subresource == "status":
        if not call.kind.custom:
            return {**obj, **_part(old, "spec")}
        meta = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
        meta |= _part(obj["metadata"], "managedFields")
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


def _noted(hub: Hub, change: Change) -> tuple[str, ...]:
    """Ask the policies; return their warnings and those about the object, which a refusal carries, too."""
    notes: tuple[str, ...] = ()
    if change.kind.custom and change.new is not None:
        notes = metadata.unqualified_finalizers(change.new, change.old)
    with refusals.warned(notes):
        return (*notes, *hub.validate(change))


def _refuse(call: Call, obj: Untyped, old: Untyped | None) -> None:
    """Raise Invalid if anything about the object is wrong."""
    kind = call.kind
    causes = metadata.faults(obj, kind)
    if old is not None:
        causes = metadata.changes_refused(obj, old) + causes
    faults = [] if kind in _SELF_CHECKED else kind_schema.of(kind).validate(obj, old, call.info.subresource)
    faults += builtin_behaviour.faults(kind, obj, old)
    apart = old is None and not kind.custom and kind.plural in _METADATA_LAST
    causes = faults if faults and apart else causes + faults
    if causes:
        raise refusals.invalid(kind, str(obj["metadata"].get("name", "")), causes)


async def _admit(hub: Hub, call: Call, obj: Untyped, old: Untyped | None, options: WriteOptions) -> Change:
    name = str(obj["metadata"].get("name", ""))
    builtin_behaviour.check_namespace(hub, call, name, creating=old is None)
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
    meta = obj.get("metadata") or {}
    base = str(meta.get("generateName") or "")
    name = str(meta.get("name") or "") or (metadata.generated(base) if base else "")
    cause = refusals.value_invalid("kind", found, f"must be {kind.kind}")
    details = errors.StatusDetails(name=name, group=kind.group, kind=found, causes=[cause])
    text = f'{found}.{kind.group} "{name}" is invalid: {cause.field}: {cause.message}'
    return errors.Invalid(text, details=details)
