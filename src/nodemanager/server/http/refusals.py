"""Refusals in Kubernetes' own words: clients match on these texts, reasons and details."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from nodemanager.kube import errors
from nodemanager.kube.errors import Cause, StatusDetails
from nodemanager.kube.objects import Untyped
from nodemanager.server.kinds.resources import ServedKind


@contextlib.contextmanager
def warned(warnings: tuple[str, ...]) -> Iterator[None]:
    """Let a refusal carry the warnings that the answer would have had."""
    try:
        yield
    except errors.StatusError as error:
        error.warnings = (*warnings, *error.warnings)
        raise


OPTIONS_GROUP = "meta.k8s.io"

MAX_SHOWN = 253
"""Characters of a name in a path that we repeat."""


def not_found(kind: ServedKind, name: str) -> errors.NotFound:
    """There is no such object."""
    return errors.NotFound(f'{kind.qualified_name} "{name}" not found', details=_about(kind, name))


def no_such_resource(name: str = "") -> errors.NotFound:
    """There is no such kind; a name of one that Kubernetes may have is said not to be served here."""
    text = "the server could not find the requested resource"
    if name:
        text += f": {name[:MAX_SHOWN]} is not served here"
    return errors.NotFound(text, details=StatusDetails())


def not_allowed() -> errors.NotAllowed:
    """The kind has no such verb."""
    text = "the server does not allow this method on the requested resource"
    return errors.NotAllowed(text, details=StatusDetails())


def exists(kind: ServedKind, name: str, there: Untyped | None = None) -> errors.AlreadyExists:
    """A create met an object of that name."""
    text = f'{kind.qualified_name} "{name}" already exists'
    if there is not None and there["metadata"].get("deletionTimestamp"):
        text = f"object is being deleted: {text}"
    return errors.AlreadyExists(text, details=_about(kind, name))


def modified(kind: ServedKind, name: str) -> errors.Conflict:
    """Another client wrote first."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def conflict(kind: ServedKind, name: str, why: str, *, of_kind: bool = False) -> errors.Conflict:
    """The present state does not allow it; `of_kind` names the kind instead of the resource."""
    title = kind.qualified_kind if of_kind else kind.qualified_name
    details = StatusDetails(name=name, group=kind.group, kind=kind.kind if of_kind else kind.plural)
    return errors.Conflict(f'Operation cannot be fulfilled on {title} "{name}": {why}', details=details)


def forbidden(kind: ServedKind, name: str, why: str, causes: Sequence[Cause] = ()) -> errors.Forbidden:
    """Admission says no."""
    details = StatusDetails(name=name, group=kind.group, kind=kind.plural, causes=list(causes))
    return errors.Forbidden(f'{kind.qualified_name} "{name}" is forbidden: {why}', details=details)


def invalid(kind: ServedKind, name: str, causes: Sequence[Cause]) -> errors.Invalid:
    """Fields of the object are refused."""
    details = StatusDetails(name=name, group=kind.group, kind=kind.kind, causes=list(causes))
    return errors.Invalid(f'{kind.qualified_kind} "{name}" is invalid: {_sum(causes)}', details=details)


def invalid_options(options: str, causes: Sequence[Cause]) -> errors.Invalid:
    """Query parameters are refused; `options` is ListOptions, CreateOptions and so on."""
    details = StatusDetails(group=OPTIONS_GROUP, kind=options, causes=list(causes))
    return errors.Invalid(f'{options}.{OPTIONS_GROUP} "" is invalid: {_sum(causes)}', details=details)


def nameless(name: str) -> errors.BadRequest:
    """An object without the name that its path has."""
    return errors.BadRequest(
        f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
    )


def rejected() -> errors.Invalid:
    """A JSON patch that does not fit the object."""
    text = "the server rejected our request due to an error in our request"
    return errors.Invalid(text, details=StatusDetails())


def internal(text: str) -> errors.StatusError:
    """A 500 without a reason, where Kubernetes lets one of its own errors through."""
    return errors.InternalError(text, status=errors.Status(message=text, code=500))


def too_large_version(wanted: int, current: int) -> errors.ServerTimeout:
    """A revision that has not happened yet."""
    cause = Cause(reason="ResourceVersionTooLarge", message="Too large resource version")
    details = StatusDetails(causes=[cause], retry_after_seconds=1)
    text = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return errors.ServerTimeout(text, details=details)


def value_invalid(field: str, value: Any, why: str) -> Cause:
    """A cause: the value is wrong."""
    return Cause(field=field, reason="FieldValueInvalid", message=f"Invalid value: {_shown(value)}: {why}")


def value_required(field: str, why: str = "") -> Cause:
    """A cause: the value is missing."""
    return Cause(
        field=field,
        reason="FieldValueRequired",
        message=f"Required value: {why}" if why else "Required value",
    )


def value_duplicate(field: str, value: Any) -> Cause:
    """A cause: the value is there twice."""
    return Cause(field=field, reason="FieldValueDuplicate", message=f"Duplicate value: {_shown(value)}")


def value_forbidden(field: str, why: str) -> Cause:
    """A cause: the value must not be there."""
    return Cause(field=field, reason="FieldValueForbidden", message=f"Forbidden: {why}")


def value_unsupported(field: str, value: Any, supported: Sequence[str]) -> Cause:
    """A cause: the value is none of those we know."""
    known = ", ".join(f'"{one}"' for one in supported)
    text = f"Unsupported value: {_shown(value)}: supported values: {known}"
    return Cause(field=field, reason="FieldValueNotSupported", message=text)


def _about(kind: ServedKind, name: str) -> StatusDetails:
    return StatusDetails(name=name, group=kind.group, kind=kind.plural)


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _sum(causes: Sequence[Cause]) -> str:
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
