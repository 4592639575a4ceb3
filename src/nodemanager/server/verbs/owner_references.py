"""What `metadata.ownerReferences` must look like, in Kubernetes' words."""

from __future__ import annotations

from nodemanager.kube import json_values
from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Untyped
from nodemanager.server.http.refusals import value_invalid

_PATH = "metadata.ownerReferences"
_TYPES: dict[str, tuple[type, str]] = {
    "apiVersion": (str, "string"), "kind": (str, "string"), "name": (str, "string"),
    "uid": (str, "types.UID"), "controller": (bool, "bool"), "blockOwnerDeletion": (bool, "bool"),
}  # fmt: skip
"""The fields in the order in which Kubernetes shows them, with what Go calls their types."""

_DUPLICATES = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, "
    "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def mistyped(references: list[Untyped]) -> str:
    """Return why references do not decode, or an empty text; a null counts as absent and is dropped."""
    for reference in references:
        for field, (wanted, name) in _TYPES.items():
            if field in reference and reference[field] is None:
                del reference[field]
            if not isinstance(reference.get(field, wanted()), wanted):
                found = json_values.json_type(reference[field])
                place = f"OwnerReference.{_PATH}.{field}"
                return f"json: cannot unmarshal {found} into Go struct field {place} of type {name}"
    return ""


def drop_duplicates(obj: Untyped, *, patched: bool = False) -> tuple[str, ...]:
    """Keep one of each reference; return the warning about the others."""
    references = obj["metadata"].get("ownerReferences") or []
    kept: list[Untyped] = []
    again: list[str] = []
    known: set[str] = set()
    for reference in references:
        uid = reference.get("uid", "")
        if uid in known and reference in kept:  # the first test is quick, the second is slow
            again.append(uid)
        else:
            known.add(uid)
            kept.append(reference)
    if not again:
        return ()
    obj["metadata"]["ownerReferences"] = kept
    return (_DUPLICATES.format(" after mutating admission happens" if patched else "", ", ".join(again)),)


def faults(references: list[Untyped]) -> list[Cause]:
    """Return what is wrong with the owners of an object."""
    found: list[Cause] = []
    controller = ""
    for reference in references:
        found += _faults(reference)
        if reference.get("controller"):
            name = f"{reference.get('kind', '')}/{reference.get('name', '')}"
            if controller:
                why = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}"
                )
                found.append(value_invalid(_PATH, [_shown(one) for one in references], why))
            controller = controller or name
    return found


def _faults(reference: Untyped) -> list[Cause]:
    api_version = reference.get("apiVersion", "")
    found = []
    if api_version.count("/") > 1 or not api_version.rpartition("/")[2]:
        found.append(value_invalid(f"{_PATH}.apiVersion", api_version, "version must not be empty"))
    found += [
        value_invalid(f"{_PATH}.{field}", "", "must not be empty")
        for field in ("kind", "name", "uid")
        if not reference.get(field)
    ]
    if api_version in ("v1", "/v1") and reference.get("kind") == "Event":
        why = "/v1, Kind=Event is disallowed from being an owner"
        found.append(value_invalid(_PATH, _shown(reference), why))
    return found


def _shown(reference: Untyped) -> Untyped:
    given = {field: reference.get(field, "") for field in ("apiVersion", "kind", "name", "uid")}
    return given | {field: reference[field] for field in _TYPES if field in reference}
