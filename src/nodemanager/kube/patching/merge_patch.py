"""RFC 7386: maps merge, lists are replaced, null removes.

As in kube-apiserver, nulls are also taken out of maps inside of lists that are new.
"""

from __future__ import annotations

from typing import Any

from nodemanager.kube import errors, json_values
from nodemanager.kube.json_values import copy_of, without_nulls


def apply_merge_patch(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the document with the patch merged in; both stay as they are."""
    if patch is None:
        raise errors.BadRequest("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise errors.BadRequest(
            f"error decoding patch: json: cannot unmarshal {json_values.json_type(patch)} "
            "into Go value of type map[string]interface {}"
        )
    return _merged(document, patch)


def _merged(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = {name: copy_of(value) for name, value in document.items() if name not in patch}
    for name, value in patch.items():
        before = document.get(name)
        if value is None:
            continue
        if isinstance(before, dict):
            result[name] = _merged(before, value) if isinstance(value, dict) else copy_of(value)
        else:
            result[name] = without_nulls(value)
    return result
