"""How server-side apply says no: in the words of kube-apiserver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodemanager.kube import errors
from nodemanager.kube.patching import managed_fields
from nodemanager.kube.patching.field_sets import Path, text
from nodemanager.kube.patching.managed_fields import ManagerIdentity
from nodemanager.kube.patching.merge_types import MergeType
from nodemanager.kube.patching.typed_values import SchemaError, validate


def check_applied(applied: Mapping[str, Any], api_version: str, kind: str) -> None:
    """Refuse what is not of the kind that the request is about, or wants to write managedFields."""
    said = str(applied.get("apiVersion") or ""), str(applied.get("kind") or "")
    if said != (api_version, kind):
        raise errors.BadRequest(f"invalid object type: {gvk(*said)}")
    if managed_fields.entries_of(applied) is not None:
        raise errors.BadRequest("metadata.managedFields must be nil")


def check_types(obj: dict[str, Any], of: MergeType, what: str, *, duplicates: bool = False) -> None:
    """Refuse an object that does not fit its schema; `what` says which one it is."""
    try:
        validate(obj, of, duplicates=duplicates)
    except SchemaError as error:
        raise errors.unforeseen(f"{what}: {error}") from error


def unconvertible(applied: Mapping[str, Any], why: str) -> errors.InternalError:
    """Return the refusal of an apply whose outcome cannot be decoded as its kind."""
    kind = gvk(str(applied.get("apiVersion") or ""), str(applied.get("kind") or ""))
    return errors.unforeseen(
        f"failed to convert new object ({name_of(applied)}) to proper version: "
        f"unable to convert unstructured object to {kind}: {why}"
    )


def gvk(api_version: str, kind: str) -> str:
    """Return a group, version and kind as Kubernetes prints them."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def name_of(applied: Mapping[str, Any]) -> str:
    """Return which object an error is about."""
    found = applied.get("metadata")
    meta = found if isinstance(found, Mapping) else {}
    version, kind = str(applied.get("apiVersion") or ""), str(applied.get("kind") or "")
    names = [name if isinstance(name := meta.get(key), str) else "" for key in ("namespace", "name")]
    return f"{'/'.join(names)}; {gvk(version, kind)}"


def conflict(found: list[tuple[ManagerIdentity, Path]]) -> errors.Conflict:
    """Return the refusal in Kubernetes' words."""
    causes = [
        errors.Cause(text(path), "FieldManagerConflict", f"conflict with {identity.describe()}")
        for identity, path in found
    ]
    if len(found) == 1:
        identity, path = found[0]
        message = f"Apply failed with 1 conflict: conflict with {identity.describe()}: {text(path)}"
    else:
        lines: list[str] = []
        for identity in dict.fromkeys(identity for identity, _ in found):
            lines.append(f"conflicts with {identity.describe()}:")
            lines += [f"- {text(path)}" for owner, path in found if owner == identity]
        message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return errors.Conflict(message, details=errors.StatusDetails(causes=causes))
