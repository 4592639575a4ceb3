"""The steps between decoding and storing, in the order of kube-apiserver.

    decode -> identify -> default -> own -> mutate -> prepare -> admit -> check -> ask_policies -> store

`decoding` has the first step and `storing` the last. The order matters: defaults belong to the writer, so
they are filled in before owners are recorded; values of the server and of mutating policies have no owner, so
they come after that; and validating policies see only objects that are otherwise good.

A built-in object has a normal form at three points, each made once: as sent (`decode`), as checked
(`prepare`), and as stored (`store`). See `NormalForm`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.kube import errors
from nodemanager.kube.json_values import copy_of
from nodemanager.kube.objects import Untyped
from nodemanager.kube.patching import server_side_apply as ssa
from nodemanager.server.http import refusals
from nodemanager.server.hub import AdmissionRequest, ApiCall
from nodemanager.server.kinds import builtin_behaviour
from nodemanager.server.kinds.builtin_kinds import (
    CRDS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    POLICIES,
    POLICY_BINDINGS,
)
from nodemanager.server.verbs import decoding, metadata, selection
from nodemanager.server.verbs.options import given_options
from nodemanager.server.verbs.pending_write import PendingWrite

_SELF_CHECKED = (CRDS, POLICIES, POLICY_BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS)
"""Kinds whose own checks replace those of the schema, in Kubernetes' words."""
_METADATA_LAST = ("poddisruptionbudgets", "events")
"""Kinds whose new objects, if they have other faults, are not checked for faults of metadata."""


async def identify(write: PendingWrite) -> PendingWrite:
    """Refuse to write another object, revision or incarnation than the one that is meant."""
    kind, obj = write.kind, _own_metadata(write.obj)
    if write.old is None:
        metadata.check_place(obj, write.call.namespace)
    else:
        _check_identity(write, obj, write.old["metadata"])
    return write.with_object({**obj, "apiVersion": kind.api_version, "kind": kind.kind})


async def default(write: PendingWrite) -> PendingWrite:
    """Fill in what the kind defaults."""
    if not (write.kind.custom or builtin_behaviour.has_defaults(write.kind)):
        return write
    obj = copy_of(write.obj)
    builtin_behaviour.fill_in(write.kind, obj)
    write.schema.fill_in(obj, keep_nulls=write.options.applied is not None)
    return write.with_object(obj)


async def own(write: PendingWrite) -> PendingWrite:
    """Record the owner of each field; for an apply, this is known already."""
    call, schema = write.call, write.schema
    entries: list[Any]
    if write.options.applied is not None:
        entries = write.options.applied
    else:
        now = write.hub.timestamp()
        writer = schema.writer(write.options.manager, write.kind, now, call.info.subresource)
        entries = ssa.update_managers(write.old, write.obj, writer, schema.merge_type)
    meta = {key: value for key, value in write.obj["metadata"].items() if key != "managedFields"}
    if entries:
        meta["managedFields"] = entries
    return write.with_object({**write.obj, "metadata": meta})


async def mutate(write: PendingWrite) -> PendingWrite:
    """Let mutating policies change the object; the fields that they write have no owner."""
    for each in write.hub.mutation:
        found = each.mutate(_change(write))
        if found is not None and found is not write.obj:
            write = write.with_object(found)
    return write


async def prepare(write: PendingWrite) -> PendingWrite:
    """Set what only the server sets, and take back what this request may not change."""
    obj = _own_metadata(write.obj)
    return write.with_object(_new(write, obj) if write.old is None else _changed(write, obj, write.old))


async def admit(write: PendingWrite) -> PendingWrite:
    """Refuse what has no namespace to be in, and what the user may not write."""
    if write.old is None:
        builtin_behaviour.check_namespace(write.hub, write.call, write.name)
    change = _change(write)
    for reviewer in write.hub.admission:
        await reviewer.review(change)
    return write


async def check(write: PendingWrite) -> PendingWrite:
    """Refuse an object that is not valid: metadata, schema with its rules, and what single kinds demand."""
    kind, obj, old = write.kind, write.obj, write.old
    causes = metadata.faults(obj, kind)
    if old is not None:
        causes = metadata.changes_refused(obj, old) + causes
    faults = [] if kind in _SELF_CHECKED else write.schema.validate(obj, old, write.call.info.subresource)
    faults += builtin_behaviour.faults(kind, obj, old)
    apart = old is None and not kind.custom and kind.plural in _METADATA_LAST
    causes = faults if faults and apart else causes + faults
    if causes:
        raise refusals.invalid(kind, write.name, causes)
    return write


async def ask_policies(write: PendingWrite) -> PendingWrite:
    """Ask the admission policies; their warnings, and those about the object, go with answer and refusal."""
    notes: tuple[str, ...] = ()
    if write.kind.custom:
        notes = metadata.unqualified_finalizers(write.obj, write.old)
    with refusals.warned(notes):
        notes += write.hub.validate(_change(write))
    return replace(write, warnings=write.warnings + notes)


def _own_metadata(obj: Untyped) -> Untyped:
    """Return an object whose fields, and those of its metadata, can be set without changing the given one."""
    return {**obj, "metadata": {**obj["metadata"]}}


def _check_identity(write: PendingWrite, obj: Untyped, was: Untyped) -> None:
    kind, name, meta = write.kind, write.call.info.name, obj["metadata"]
    decoding.check_names(write.call, obj)
    if meta.get("uid", was["uid"]) != was["uid"] and not write.options.patch:
        raise other_incarnation(write.call, meta["uid"], was["uid"])
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


def other_incarnation(call: ApiCall, wanted: str, found: str) -> errors.Conflict:
    """Return the refusal to write an object of another uid than the one that is meant."""
    kind, name = call.kind, call.info.name
    key = f"/registry/{kind.plural}/{call.namespace}/{name}".replace("//", "/")
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return refusals.conflict(kind, name, why)


def _new(write: PendingWrite, obj: Untyped) -> Untyped:
    kind = write.kind
    metadata.begin(obj, kind, write.call.namespace, write.hub.timestamp())
    if kind.has_status and not kind.keeps_status:
        obj.pop("status", None)
    builtin_behaviour.prepare(write.hub, kind, obj, None)
    return write.schema.normalised(obj)


def _changed(write: PendingWrite, obj: Untyped, old: Untyped) -> Untyped:
    obj = _writable_part(write.call, obj, old)
    metadata.carry_over(obj, old)
    obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    builtin_behaviour.prepare(write.hub, write.kind, obj, old)
    obj = write.schema.normalised(obj)
    ssa.keep_times(old, obj)  # before generations are counted, because a change of owners does not count
    metadata.count_generation(obj, old, write.kind)
    return obj


def _writable_part(call: ApiCall, obj: Untyped, old: Untyped) -> Untyped:
    """Return the object with only those changes that the resource or subresource may make."""
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


def _change(write: PendingWrite) -> AdmissionRequest:
    """Return the write as admission sees it."""
    call, verb = write.call, "update" if write.old is not None else "create"
    return AdmissionRequest(
        verb, call.kind, call.namespace, write.name, call.info.subresource, write.obj, write.old, call.user,
        write.options.dry_run, asked=call.info.verb,
        options=given_options(call, f"{verb.capitalize()}Options"),
    )  # fmt: skip
