"""The four ways to change a part of an object. There is no fifth: typed objects are never PUT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec


@dataclass(frozen=True, slots=True)
class MergePatch:
    """RFC 7386: maps merge, lists are replaced, null removes.

    With `metadata.resourceVersion` in the body it succeeds only against that version.
    """

    body: Mapping[str, Any]
    content_type: ClassVar[str] = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902: an ordered list of operations, `test` included."""

    body: Sequence[Mapping[str, Any]]
    content_type: ClassVar[str] = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class StrategicPatch:
    """Kubernetes' own merge, for built-in kinds only: lists merge by key."""

    body: Mapping[str, Any]
    content_type: ClassVar[str] = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class ApplyPatch:
    """Server-side apply: the fields we own, all of them, and nothing else."""

    body: Mapping[str, Any]
    force: bool = False
    content_type: ClassVar[str] = "application/apply-patch+yaml"


Patch = MergePatch | JsonPatch | StrategicPatch | ApplyPatch


def encode(patch: Patch) -> bytes:
    """Return the JSON of a patch (which is valid YAML, too)."""
    return msgspec.json.encode(patch.body)


def difference(old: Any, new: Any) -> dict[str, Any]:
    """Return the merge patch that turns `old` into `new`; empty when they are equal.

    Both are plain JSON objects (`msgspec.to_builtins`). What neither side names stays as it is on the
    server, so fields of newer API versions survive.
    """
    patch: dict[str, Any] = {}
    for name in old.keys() - new.keys():
        patch[name] = None
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := difference(before, value):
                patch[name] = inner
        elif name not in old or not _same(before, value):
            patch[name] = value
    return patch


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON, where true is not 1 although Python says so."""
    return one == other and msgspec.json.encode(one, order="sorted") == msgspec.json.encode(
        other, order="sorted"
    )
