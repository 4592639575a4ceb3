"""Decode, the first step of a write: from what a client sent to an object in the form of its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.http import bodies, refusals
from nodemanager.server.hub import ApiCall
from nodemanager.server.kinds import kind_schema, micro_times
from nodemanager.server.kinds.go_zero_values import NormalForm
from nodemanager.server.verbs import metadata, owner_references
from nodemanager.server.verbs.options import WriteOptions
from nodemanager.server.verbs.pending_write import PendingWrite

Refusal = Callable[[str], errors.StatusError]
"""Returns the refusal of an object that does not fit its kind, for the reason given."""


async def decode(write: PendingWrite) -> PendingWrite:
    """Read the object that the body of a create or an update contains."""
    call = write.call
    obj, warnings = read_body(call, write.options)
    if call.info.verb == "create" and call.kind.custom and obj["kind"] != call.kind.kind:
        raise _other_kind(call, obj)
    warnings += owner_references.drop_duplicates(obj)
    return replace(write, obj=obj, warnings=write.warnings + warnings)


async def normalise(write: PendingWrite) -> PendingWrite:
    """Take an object that the server made itself, instead of `decode`: it only needs the form of its kind."""
    return write.with_object(write.schema.normalised(write.obj, NormalForm.SENT))


def read_body(call: ApiCall, options: WriteOptions, *, older: str = "") -> tuple[Untyped, tuple[str, ...]]:
    """Return the object in the body of a request, and warnings; it may be of an `older` version."""
    obj = bodies.read_object(call.body, call.content_type, call.kind, older=older)
    metadata.check_shape(obj, call.kind)
    twice = bodies.duplicates(call.body) if options.checks else []
    return in_form(call, obj, options, lambda why: metadata.unfit(call.kind, why), twice)


def in_form(
    call: ApiCall, obj: Untyped, options: WriteOptions, refusal: Refusal, twice: Sequence[str] = ()
) -> tuple[Untyped, tuple[str, ...]]:
    """Return an object in the form of its kind, without unknown fields, and warnings about these.

    The object that is given is used up. `twice` are the paths of fields that the client sent twice.
    """
    schema = kind_schema.of(call.kind)
    if fault := schema.unfit(obj) or micro_times.normalize(call.kind, obj):
        raise refusal(fault)
    texts = [f'duplicate field "{path}"' for path in twice]
    texts += [f'unknown field "{path}"' for path in schema.prune(obj)]
    if options.validation == "Strict" and texts:
        raise refusal(f"strict decoding error: {', '.join(texts)}")
    warnings = tuple(texts) if options.validation == "Warn" else ()
    return schema.normalised(obj, NormalForm.SENT), warnings


def check_names(call: ApiCall, obj: Untyped) -> None:
    """Refuse an object whose name or namespace is not that of the path; fill in a missing namespace."""
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


def _other_kind(call: ApiCall, obj: Untyped) -> errors.Invalid:
    kind, found = call.kind, str(obj["kind"])
    meta = obj.get("metadata") or {}
    base = str(meta.get("generateName") or "")
    name = str(meta.get("name") or "") or (metadata.generated(base) if base else "")
    cause = refusals.value_invalid("kind", found, f"must be {kind.kind}")
    details = errors.StatusDetails(name=name, group=kind.group, kind=found, causes=[cause])
    text = f'{found}.{kind.group} "{name}" is invalid: {cause.field}: {cause.message}'
    return errors.Invalid(text, details=details)
