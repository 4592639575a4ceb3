"""The annotation of client-side `kubectl apply`: what it applied may be taken over without a conflict."""

from __future__ import annotations

import json
from typing import Any

from nodemanager.kube import json_values
from nodemanager.kube.patching.field_sets import EMPTY, FieldSet
from nodemanager.kube.patching.merge_types import MergeType
from nodemanager.kube.patching.typed_compare import compare
from nodemanager.kube.patching.typed_values import SchemaError, fields_of, validate

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"
"""Only this manager is upgraded from client-side apply."""


def owned_fields(live: dict[str, Any], of: MergeType, api_version: str) -> FieldSet:
    """Return the fields that client-side apply set and that are still as it set them."""
    try:
        applied = json.loads(_annotations(live).get(ANNOTATION) or "null")
        if not isinstance(applied, dict) or applied.get("apiVersion") != api_version:
            return EMPTY
        validate(applied, of)
        validate(live, of)
    except (ValueError, SchemaError, RecursionError):
        return EMPTY
    changes = compare(applied, live, of)
    fields = fields_of(applied, of).difference(changes.modified)
    return fields.difference(changes.added).difference(changes.removed)


def refreshed(obj: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """Return the object; its annotation, if it has one, says what was applied now."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return obj
    said = json_values.copy_of(applied)
    _annotations(said).pop(ANNOTATION, None)
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations, ANNOTATION: text}}}


def _annotations(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}
