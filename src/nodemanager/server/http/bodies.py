"""Reading what clients send: JSON or YAML, bounded, with Kubernetes' complaints."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import accumulate
from typing import Any, Final

import msgspec

from nodemanager.kube import errors, manifests
from nodemanager.kube.objects import Untyped
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.openapi import protobuf

MAX_SHOWN = 256
MAX_SUMMARY = 30
MAX_DUPLICATES = 100
MAX_YAML = 256 * 1024
"""YAML is read in Python, in the event loop: this much takes half a second, in which all other requests wait.
"""
MAX_DEPTH = 200
"""How deep a body may be nested: functions that walk over objects must not run out of stack."""
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(one for one in range(256) if one not in _STEPS)
_FORMATS = f"application/json, application/yaml, {protobuf.MEDIA_TYPE}"


def media_type(content_type: str) -> str:
    """Return a Content-Type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def decode(body: bytes, content_type: str) -> Any:
    """Return the value in a body; raise ValueError with the reason when there is none."""
    media = media_type(content_type) or "application/json"
    if media == "application/json":
        return decode_json(body)
    if media in ("application/yaml", "application/apply-patch+yaml"):
        return decode_yaml(body)
    if media == protobuf.MEDIA_TYPE:
        try:
            return protobuf.decode(body)
        except protobuf.UnreadKind as error:
            raise errors.UnsupportedType(f"cannot read the body: {error}") from error
        except errors.UNREADABLE as error:
            raise ValueError(str(error)) from error
    raise errors.UnsupportedType(
        f"the body of the request was in an unknown format - accepted media types include: {_FORMATS}"
    )


def decode_json(body: bytes) -> Any:
    """Return the value of a JSON text, or raise ValueError."""
    if not body.strip():
        raise ValueError("unexpected end of JSON input")
    if _depth(body) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    try:
        return msgspec.json.decode(body)
    except errors.UNREADABLE as error:
        raise ValueError(str(error)) from error


def _depth(body: bytes) -> int:
    """Return how deep a JSON text may be nested, counting brackets outside of strings."""
    brackets = _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets), initial=0))


def decode_yaml(body: bytes) -> Any:
    """Return the value of a text of one YAML document, or raise ValueError."""
    if body.lstrip()[:1] == b"{":
        try:
            return decode_json(body)
        except ValueError:
            pass  # flow style YAML looks the same at first
    if len(body) > MAX_YAML:
        raise ValueError(f"YAML longer than {MAX_YAML} bytes is not read; send JSON")
    try:
        found = list(manifests.documents(body.decode(), "the body"))
    except (manifests.ManifestError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if len(found) != 1:
        raise ValueError(f"expected one YAML document, found {len(found)}")
    return found[0][1]


def read_object(body: bytes, content_type: str, kind: ServedKind, *, older: str = "") -> Untyped:
    """Return the object in a body, of exactly that kind and version, or of an older one of the same form."""
    try:
        value = decode(body, content_type)
    except ValueError as error:
        why = f"couldn't get version/kind; json parse error: {error}"
        raise _unrecognized(kind, why, body) from error
    if not isinstance(value, dict):
        why = "couldn't get version/kind; json parse error: the body is not an object"
        raise _unrecognized(kind, why, body)
    if older and value.get("apiVersion") == older:
        value["apiVersion"] = kind.api_version
    check_kind(value, kind, body)
    return value


def check_kind(obj: Untyped, kind: ServedKind, body: bytes = b"") -> None:
    """Refuse an object of another kind or version; built-in kinds may leave both out."""
    version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    if kind.custom and not name:
        shown = body[:MAX_SHOWN].decode(errors="replace")
        raise _unrecognized(kind, f"Object 'Kind' is missing in '{shown}'", body)
    if not isinstance(name, str) or (name not in ("", kind.kind) and not kind.custom):
        raise errors.BadRequest(
            f'{name} in version "{version or kind.version}" cannot be handled as a {kind.kind}: '
            f"it is of another kind"
        )
    if version not in ("", kind.api_version) or (kind.custom and not version):
        raise errors.BadRequest(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )


def duplicates(body: bytes) -> list[str]:
    """Return the paths of keys that are given twice in a JSON text."""
    found = False

    def collect(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) < len(pairs)

    try:
        json.loads(body, object_pairs_hook=collect)
        # The walk that finds out where is slow, so it is done only if a key is repeated.
        return _paths(json.loads(body, object_pairs_hook=_Pairs), "")[:MAX_DUPLICATES] if found else []
    except (ValueError, RecursionError):
        return []


class _Pairs(list[tuple[str, Any]]):
    """An object with its keys as they were written."""


def _paths(value: Any, path: str) -> list[str]:
    if isinstance(value, _Pairs):
        twice = [key for key, count in Counter(key for key, _ in value).items() if count > 1]
        inner = [where for key, item in value for where in _paths(item, f"{path}{key}.")]
        return [f"{path}{key}" for key in twice] + inner
    if isinstance(value, list):
        stem = path.removesuffix(".")
        return [where for index, item in enumerate(value) for where in _paths(item, f"{stem}[{index}].")]
    return []


def _unrecognized(kind: ServedKind, why: str, body: bytes) -> errors.BadRequest:
    return errors.BadRequest(
        f"the object provided is unrecognized (must be of type {kind.kind}): {why} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """Return the beginning of a body: what may be JSON as it is, all else in hexadecimal digits."""
    shown = body[:MAX_SUMMARY]
    text = shown.decode(errors="replace") if body[:1] == b"{" else shown.hex()
    return f"{text}{' ...' if len(body) > MAX_SUMMARY else ''}" if body else "<empty>"
