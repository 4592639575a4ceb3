"""PATCH: four ways to say what changes, each ending in an update that is retried when it loses a race."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from nodemanager.kube import errors, json_values
from nodemanager.kube.json_values import copy_of
from nodemanager.kube.objects import Untyped
from nodemanager.kube.patching import apply_refusals, json_patch, merge_patch, strategic_merge
from nodemanager.kube.patching import server_side_apply as ssa
from nodemanager.server.http import bodies, refusals
from nodemanager.server.hub import ApiAnswer, ApiCall, Hub
from nodemanager.server.kinds import builtin_schemas, micro_times
from nodemanager.server.kinds.go_zero_values import NormalForm
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import decoding, metadata, owner_references, stored, write
from nodemanager.server.verbs.options import write_options
from nodemanager.server.verbs.pending_write import PendingWrite, Step, advance
from nodemanager.store.base import Mismatch

TRIES = 5
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Patcher = Callable[[Untyped], Untyped]


async def patch(hub: Hub, call: ApiCall) -> ApiAnswer:
    """Answer a PATCH to an object or to one of its subresources."""
    media = _media(call)
    options = write_options(call, "PatchOptions", apply=media == APPLY_PATCH)
    may_create = media == APPLY_PATCH and not call.info.subresource
    decode = _applying(_applied(call)) if media == APPLY_PATCH else _patching(_patcher(call, media))
    for _ in range(TRIES):
        pending = PendingWrite(hub, call, options)
        record = hub.store.get(call.key)
        if record is not None:
            pending = pending.over(record)
        elif not may_create:
            raise refusals.not_found(call.kind, call.info.name)
        try:
            return await write.finished(await advance(pending, (decode,)))
        except Mismatch:
            continue  # another writer was faster: patch its result
    raise refusals.modified(call.kind, call.info.name)


def _media(call: ApiCall) -> str:
    """Return the kind of a patch, or refuse unknown kinds."""
    allowed = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
    if call.kind.custom:
        allowed.remove(STRATEGIC_PATCH)
    media = bodies.media_type(call.content_type)
    if media not in allowed:
        raise errors.UnsupportedType(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(allowed)
        )
    return media


def _patcher(call: ApiCall, media: str) -> Patcher:
    """Return what turns the present object into the wanted one."""
    try:
        body = bodies.decode_json(call.body)
    except ValueError as error:
        raise errors.BadRequest(f"error decoding patch: {error}") from error
    if media == JSON_PATCH:
        return lambda obj: _versioned(call, _json_patched(obj, body))
    if media == MERGE_PATCH:
        return lambda obj: _versioned(call, merge_patch.apply_merge_patch(obj, body))
    if not isinstance(body, dict):
        raise errors.BadRequest("error decoding patch: json: cannot unmarshal the patch into a map")
    strategy = builtin_schemas.strategy(call.kind.group, call.kind.version, call.kind.kind)
    return lambda obj: strategic_merge.apply_strategic_merge(obj, body, strategy)


def _versioned(call: ApiCall, obj: Untyped) -> Untyped:
    """Refuse a built-in object without a version as Kubernetes does: nothing of it can be read."""
    if not call.kind.custom and not obj.get("apiVersion"):
        raise refusals.nameless(call.info.name)
    return obj


def _json_patched(obj: Untyped, operations: object) -> Untyped:
    try:
        value = json_patch.apply_json_patch(obj, operations)
    except errors.Invalid as error:
        raise refusals.rejected() from error
    if not isinstance(value, dict):
        raise refusals.rejected()
    return value


def _patching(patcher: Patcher) -> Step:
    """Return how the outcome of a patch is decoded; what does not fit its kind is the patch's fault."""

    async def decode(pending: PendingWrite) -> PendingWrite:
        call, live = pending.call, pending.live
        if live is None:
            raise AssertionError("only an apply may create")
        obj = patcher(stored.load(call.kind, live.record))  # read again, as it is changed from here on
        before = patched_text(call.kind, obj)
        try:
            bodies.check_kind(obj, call.kind, call.body)
            metadata.check_shape(obj, call.kind)
        except errors.BadRequest as error:
            raise _misfit(before, error.message) from error
        obj, warnings = decoding.in_form(call, obj, pending.options, partial(_misfit, before))
        warnings += owner_references.drop_duplicates(obj, patched=True)
        return replace(pending, obj=obj, warnings=warnings)

    return decode


def _misfit(patched: str, why: str) -> errors.Invalid:
    cause = refusals.value_invalid("patch", patched, why)
    details = errors.StatusDetails(causes=[cause])
    return errors.Invalid(f' "" is invalid: {cause.field}: {cause.message}', details=details)


def patched_text(kind: ServedKind, obj: Untyped) -> str:
    """Return an object as the text that a refusal quotes; secrets are not quoted."""
    return "" if kind.plural == "secrets" else msgspec.json.encode(obj, order="sorted").decode()


def _applying(applied: Untyped) -> Step:
    """Return how a server-side apply is decoded: merged with what is there, and with its owners known."""

    async def decode(pending: PendingWrite) -> PendingWrite:
        call, schema, options = pending.call, pending.schema, pending.options
        writer = schema.writer(options.manager, call.kind, pending.hub.timestamp(), call.info.subresource)
        merged = ssa.apply(pending.old, copy_of(applied), writer, schema.merge_type, force=options.force)
        obj = merged.object
        metadata.check_shape(obj, call.kind)
        if fault := schema.unfit(obj) or micro_times.normalize(call.kind, obj):
            raise apply_refusals.unconvertible(applied, fault)
        schema.prune({"metadata": obj["metadata"]})  # the rest was checked field by field
        decoding.check_names(call, obj)
        uid = obj["metadata"].get("uid")
        if pending.old is None and uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise refusals.conflict(call.kind, call.info.name, why)
        return replace(
            pending, obj=schema.normalised(obj, NormalForm.SENT), warnings=(),
            options=replace(options, applied=merged.managed_fields),
        )  # fmt: skip

    return decode


def _applied(call: ApiCall) -> Untyped:
    try:
        applied = bodies.decode_yaml(call.body)
    except ValueError as error:
        raise errors.BadRequest(f"error decoding YAML: {error}") from error
    if not isinstance(applied, dict):
        raise errors.BadRequest("error decoding YAML: the body is not an object")
    whole: Untyped = json_values.whole_numbers(applied)  # the way from YAML leaves no 2.0
    return whole
