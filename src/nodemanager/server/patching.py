"""PATCH: four ways to say what changes, each ending in an update that is retried when it loses a race."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nodemanager.api import errors, json_patch, merge_patch, patch_strategies, strategic_merge
from nodemanager.api import server_side_apply as ssa
from nodemanager.api.json_values import copy_of
from nodemanager.api.objects import Untyped
from nodemanager.server import bodies, machinery, metadata, owner_references, refusals, stored, write
from nodemanager.server.hub import Answer, Call, Hub
from nodemanager.server.options import WriteOptions, write_options
from nodemanager.server.resources import ServedKind
from nodemanager.store.base import Mismatch

TRIES = 5
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Patcher = Callable[[Untyped], Untyped]


async def patch(hub: Hub, call: Call) -> Answer:
    """Answer a PATCH to an object or to one of its subresources."""
    options = write_options(call, "PatchOptions")
    media = bodies.media_type(call.content_type)
    if media == APPLY_PATCH:
        return await _apply(hub, call, options)
    if call.query.get("force"):
        cause = refusals.value_forbidden("force", "may not be specified for non-apply patch")
        raise refusals.invalid_options("PatchOptions", [cause])
    patcher = _patcher(call, media)
    for _ in range(TRIES):
        record = hub.store.get(call.key)
        if record is None:
            raise refusals.not_found(call.kind, call.info.name)
        obj = patcher(stored.load(call.kind, record))
        bodies.check_kind(obj, call.kind, call.body)
        metadata.check_shape(obj, call.kind)
        warnings = _drop_unknown(call, obj, options) + owner_references.drop_duplicates(obj, patched=True)
        try:
            return await write.save(hub, call, record, obj, options, warnings)
        except Mismatch:
            continue
    raise refusals.modified(call.kind, call.info.name)


def _patcher(call: Call, media: str) -> Patcher:
    """Return what turns the present object into the wanted one."""
    allowed = (JSON_PATCH, MERGE_PATCH) if call.kind.custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)
    if media not in allowed:
        types = ", ".join((*allowed, APPLY_PATCH))
        raise errors.UnsupportedType(
            f"the body of the request was in an unknown format - accepted media types include: {types}"
        )
    try:
        body = bodies.decode_json(call.body)
    except ValueError as error:
        raise errors.BadRequest(f"error decoding patch: {error}") from error
    if media == JSON_PATCH:
        return lambda obj: _json_patched(obj, body)
    if media == MERGE_PATCH:
        return lambda obj: merge_patch.apply_merge_patch(obj, body)
    if not isinstance(body, dict):
        raise errors.BadRequest("error decoding patch: json: cannot unmarshal the patch into a map")
    strategy = patch_strategies.strategy_of(call.kind.group, call.kind.kind)
    return lambda obj: strategic_merge.apply_strategic_merge(obj, body, strategy)


def _json_patched(obj: Untyped, operations: object) -> Untyped:
    try:
        value = json_patch.apply_json_patch(obj, operations)
    except errors.Invalid as error:
        raise refusals.rejected() from error
    if not isinstance(value, dict):
        raise refusals.rejected()
    return value


def _drop_unknown(call: Call, obj: Untyped, options: WriteOptions) -> tuple[str, ...]:
    """Prune what the patch brought in that nobody knows; a strict client is refused as a patch is."""
    if options.validation != "Strict":
        return write.drop_unknown(call, obj, options, [])
    before = stored_text(call.kind, obj)
    unknown = machinery.of(call.kind).prune(obj)
    if unknown:
        texts = ", ".join(f'unknown field "{path}"' for path in unknown)
        cause = refusals.value_invalid("patch", before, f"strict decoding error: {texts}")
        details = errors.StatusDetails(causes=[cause])
        raise errors.Invalid(f' "" is invalid: {cause.field}: {cause.message}', details=details)
    return (call.kind.warning,) if call.kind.warning else ()


def stored_text(kind: ServedKind, obj: Untyped) -> str:
    """Return an object as the text that a refusal quotes; secrets are not quoted."""
    return "" if kind.plural == "secrets" else stored.dump(kind, obj).decode()


async def _apply(hub: Hub, call: Call, options: WriteOptions) -> Answer:
    """Server-side apply: create or merge, and know who owns what."""
    manager = call.query.get("fieldManager", "")
    if not manager:
        cause = refusals.value_required("fieldManager", "is required for apply patch")
        raise refusals.invalid_options("PatchOptions", [cause])
    applied = _applied(call)
    for _ in range(TRIES):
        record = hub.store.get(call.key)
        if record is None and call.info.subresource:
            raise refusals.not_found(call.kind, call.info.name)
        live = None if record is None else stored.load(call.kind, record)
        tools = machinery.of(call.kind)
        writer = tools.writer(manager, call.kind, hub.timestamp(), call.info.subresource)
        wanted = copy_of(applied)
        warnings = write.drop_unknown(call, wanted, options, [])
        merged = ssa.apply(live, wanted, writer, tools.merge_type, force=options.force)
        own = replace(options, applied=merged.managed_fields)
        obj = copy_of(merged.object)
        metadata.check_shape(obj, call.kind)
        if record is None:
            obj["metadata"]["name"] = call.info.name
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
    metadata.check_shape(applied, call.kind)
    name = applied["metadata"].setdefault("name", call.info.name)
    if name != call.info.name:
        raise errors.BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )
    return applied
