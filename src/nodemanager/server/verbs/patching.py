"""PATCH: four ways to say what changes, each ending in an update that is retried when it loses a race."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from nodemanager.kube import errors, json_values
from nodemanager.kube.json_values import copy_of
from nodemanager.kube.objects import Untyped
from nodemanager.kube.patching import apply_refusals, json_patch, merge_patch, strategic_merge, strategies
from nodemanager.kube.patching import server_side_apply as ssa
from nodemanager.server.http import bodies, refusals
from nodemanager.server.hub import Answer, Call, Hub
from nodemanager.server.kinds import kind_schema, micro_times
from nodemanager.server.kinds.go_zero_values import Stage
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import metadata, owner_references, stored, write
from nodemanager.server.verbs.options import WriteOptions, write_options
from nodemanager.store.base import Mismatch

TRIES = 5
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Patcher = Callable[[Untyped], Untyped]


async def patch(hub: Hub, call: Call) -> Answer:
    """Answer a PATCH to an object or to one of its subresources."""
    media = _media(call)
    options = write_options(call, "PatchOptions", apply=media == APPLY_PATCH)
    if media == APPLY_PATCH:
        return await _apply(hub, call, options)
    patcher = _patcher(call, media)
    for _ in range(TRIES):
        record = hub.store.get(call.key)
        if record is None:
            raise refusals.not_found(call.kind, call.info.name)
        obj = patcher(stored.load(call.kind, record))
        warnings = _decoded(call, obj, options) + owner_references.drop_duplicates(obj, patched=True)
        try:
            with refusals.warned(warnings):
                return await write.save(hub, call, record, obj, options, warnings)
        except Mismatch:
            continue
    raise refusals.modified(call.kind, call.info.name)


def _media(call: Call) -> str:
    """Return what kind of patch it is, or refuse kinds that nobody knows."""
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


def _patcher(call: Call, media: str) -> Patcher:
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
    strategy = strategies.strategy_of(call.kind.group, call.kind.kind)
    return lambda obj: strategic_merge.apply_strategic_merge(obj, body, strategy)


def _versioned(call: Call, obj: Untyped) -> Untyped:
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


def _decoded(call: Call, obj: Untyped, options: WriteOptions) -> tuple[str, ...]:
    """Bring the outcome of a patch into the form of its kind; what does not fit is the patch's fault."""
    tools, before = kind_schema.of(call.kind), patched_text(call.kind, obj)
    try:
        bodies.check_kind(obj, call.kind, call.body)
        metadata.check_shape(obj, call.kind)
    except errors.BadRequest as error:
        raise _misfit(before, error.message) from error
    if fault := tools.unfit(obj) or micro_times.normalize(call.kind, obj):
        raise _misfit(before, fault)
    if options.validation != "Strict":
        warnings = write.drop_unknown(call, obj, options, [])
    else:
        warnings = (call.kind.warning,) if call.kind.warning else ()
        if unknown := tools.prune(obj):
            texts = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise _misfit(before, f"strict decoding error: {texts}")
    tools.settle(obj, Stage.SENT)
    return warnings


def _misfit(patched: str, why: str) -> errors.Invalid:
    cause = refusals.value_invalid("patch", patched, why)
    details = errors.StatusDetails(causes=[cause])
    return errors.Invalid(f' "" is invalid: {cause.field}: {cause.message}', details=details)


def patched_text(kind: ServedKind, obj: Untyped) -> str:
    """Return an object as the text that a refusal quotes; secrets are not quoted."""
    return "" if kind.plural == "secrets" else msgspec.json.encode(obj, order="sorted").decode()


async def _apply(hub: Hub, call: Call, options: WriteOptions) -> Answer:
    """Server-side apply: create or merge, and know who owns what."""
    applied = _applied(call)
    for _ in range(TRIES):
        record = hub.store.get(call.key)
        if record is None and call.info.subresource:
            raise refusals.not_found(call.kind, call.info.name)
        live = None if record is None else stored.load(call.kind, record)
        tools = kind_schema.of(call.kind)
        writer = tools.writer(options.manager, call.kind, hub.timestamp(), call.info.subresource)
        wanted = copy_of(applied)
        warnings = (call.kind.warning,) if call.kind.warning else ()
        merged = ssa.apply(live, wanted, writer, tools.merge_type, force=options.force)
        own = replace(options, applied=merged.managed_fields)
        obj = copy_of(merged.object)
        metadata.check_shape(obj, call.kind)
        if fault := tools.unfit(obj) or micro_times.normalize(call.kind, obj):
            raise apply_refusals.unconvertible(applied, fault)
        tools.prune({"metadata": obj["metadata"]})  # the rest was checked field by field
        write.check_names(call, obj)
        if record is None:
            if uid := obj["metadata"].get("uid"):
                why = (
                    f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                )
                raise refusals.conflict(call.kind, call.info.name, why)
            return await write.add(hub, call, obj, own, warnings)
        try:
            return await write.save(hub, call, record, obj, own, warnings)
        except Mismatch:
            continue
    raise refusals.modified(call.kind, call.info.name)


def _applied(call: Call) -> Untyped:
    try:
        applied = bodies.decode_yaml(call.body)
    except ValueError as error:
        raise errors.BadRequest(f"error decoding YAML: {error}") from error
    if not isinstance(applied, dict):
        raise errors.BadRequest("error decoding YAML: the body is not an object")
    whole: Untyped = json_values.whole_numbers(applied)  # the way from YAML leaves no 2.0
    return whole
