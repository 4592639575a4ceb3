"""What `kubectl apply` and Argo CD compute: how a live object has to change to be as its manifest says.

As `CreateThreeWayJSONMergePatch` of apimachinery, which both use for custom resources: add and change what
the manifest says otherwise than the live object; remove what the manifest said when it was applied last, and
says no more. What nobody ever declared (defaults, status) is left alone. Lists are taken as a whole.
"""

from __future__ import annotations

import json
from typing import Any

from nodemanager.kube.patching.last_applied import ANNOTATION

_SAME: Any = object()


def declared(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return a manifest as `kubectl apply` sends it, with what it says in its annotation."""
    metadata = {"annotations": {}, **manifest["metadata"], "namespace": namespace}
    plain = {**manifest, "metadata": metadata}
    text = json.dumps(plain, separators=(",", ":")) + "\n"
    return {**plain, "metadata": {**metadata, "annotations": {**metadata["annotations"], ANNOTATION: text}}}


def patch(manifest: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch; empty = in sync."""
    applied = json.loads(live["metadata"]["annotations"][ANNOTATION])
    changed = _changed(live, manifest)
    removed = _removed(applied, manifest)
    return _both({} if changed is _SAME else changed, removed)


def _changed(live: Any, wanted: Any) -> Any:
    if not isinstance(live, dict) or not isinstance(wanted, dict):
        return _SAME if live == wanted else wanted
    found = {key: _changed(live[key], value) if key in live else value for key, value in wanted.items()}
    found = {key: value for key, value in found.items() if value is not _SAME}
    return found or _SAME


def _removed(applied: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {key: None for key in applied if key not in wanted}
    for key, value in applied.items():
        if isinstance(value, dict) and isinstance(wanted.get(key), dict):
            inner = _removed(value, wanted[key])
            found |= {key: inner} if inner else {}
    return found


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = {**one, **other}
    for key in one.keys() & other.keys():
        if isinstance(one[key], dict) and isinstance(other[key], dict):
            merged[key] = _both(one[key], other[key])
    return merged
