"""The rules of `metadata`: what the server sets, what clients may change, and names that hold."""

from __future__ import annotations

import re
import secrets
import uuid
from typing import Any

from nodemanager.kube import errors, json_values, object_names
from nodemanager.kube.errors import Cause
from nodemanager.kube.go.text import quote
from nodemanager.kube.json_values import ABSENT
from nodemanager.kube.objects import Untyped
from nodemanager.kube.schemas.formats import STRING_FORMATS
from nodemanager.server.http.refusals import value_forbidden, value_invalid, value_required
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import owner_references

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX, _BASE_MAX = 5, 58
_VALUE_FORM = f"({object_names.QUALIFIED})?"
_MAX_ANNOTATIONS = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_IMMUTABLE = ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_GIVEN = ("generation", "creationTimestamp")
"""Fields that only the server sets: what a client sends there is ignored, not refused."""
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_ANY_FINALIZER = ("events", "leases", "poddisruptionbudgets")
_MAPS, _LISTS = ("labels", "annotations"), ("finalizers", "ownerReferences", "managedFields")


def check_shape(obj: Untyped, kind: ServedKind) -> None:
    """Refuse metadata whose fields have other types than an ObjectMeta."""
    meta = obj.setdefault("metadata", {})
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise unfit(kind, "json: cannot unmarshal metadata into Go struct field of type ObjectMeta")
    for field in ("managedFields", "ownerReferences"):
        if isinstance(meta.get(field), list):
            meta[field] = [{} if entry is None else entry for entry in meta[field]]
    for field, value in meta.items():
        wanted = "" if value is None else _wrong_type(field, value)
        if wanted:
            found = json_values.json_type(_culprit(value))
            raise unfit(
                kind,
                f"json: cannot unmarshal {found} into Go struct field ObjectMeta.{field} of type {wanted}",
            )
    why = owner_references.mistyped(meta.get("ownerReferences") or [])
    if why:
        raise unfit(kind, why)


def _culprit(value: Any) -> Any:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((item for item in items if not isinstance(item, str)), value)


def unfit(kind: ServedKind, why: str) -> errors.BadRequest:
    """Return the refusal of an object that does not decode as its kind."""
    return errors.BadRequest(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'
    )


def _wrong_type(field: str, value: Any) -> str:
    if field in _MAPS:
        fits = isinstance(value, dict) and all(isinstance(item, str | None) for item in value.values())
        return "" if fits else "string"
    if field in _LISTS:
        item_type = str if field == "finalizers" else dict
        fits = isinstance(value, list) and all(isinstance(item, item_type | None) for item in value)
        return "" if fits else "list"
    if field in ("generation", "deletionGracePeriodSeconds"):
        return "" if type(value) is int else "int64"
    if field in ("creationTimestamp", "deletionTimestamp"):
        return "" if isinstance(value, str) and STRING_FORMATS["datetime"](value) else "Time"
    known = (*_IMMUTABLE, "generateName", "resourceVersion", "selfLink")
    return "string" if field in known and not isinstance(value, str) else ""


def check_place(obj: Untyped, namespace: str) -> None:
    """Refuse an object that says it is in another namespace than the request."""
    if not namespace:
        obj["metadata"].pop("namespace", None)
    if obj["metadata"].get("namespace", namespace) != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def begin(obj: Untyped, kind: ServedKind, namespace: str, now: str) -> None:
    """Set what the server sets on a new object."""
    meta = obj["metadata"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(field, None)
    if namespace:
        meta["namespace"] = namespace
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated(meta["generateName"])
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now
    if kind.custom or kind.counted:
        meta["generation"] = 1


def generated(base: str) -> str:
    """Return a name that starts with a base and ends at random."""
    return base[:_BASE_MAX] + "".join(secrets.choice(_ALPHABET) for _ in range(_SUFFIX))


def carry_over(obj: Untyped, old: Untyped) -> None:
    """Keep fields that clients need not send again; `changes_refused` looks at those that they changed."""
    meta, was = obj["metadata"], old["metadata"]
    for field in _KEPT:
        if field in was and (field in _GIVEN or not meta.get(field)):
            meta[field] = was[field]
    if "generation" not in was:
        meta.pop("generation", None)
    meta.pop("selfLink", None)


def count_generation(obj: Untyped, old: Untyped, kind: ServedKind) -> None:
    """Raise the generation if anything but metadata and a separate status has changed."""
    if not kind.custom and not kind.counted:
        return
    ignored = {"metadata", "apiVersion", "kind"} | (
        {"status"} if kind.has_status or not kind.custom else set()
    )
    fields = (obj.keys() | old.keys()) - ignored
    if not all(json_values.identical(obj.get(key, ABSENT), old.get(key, ABSENT)) for key in fields):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def faults(obj: Untyped, kind: ServedKind) -> list[Cause]:
    """Return what is wrong with the metadata of an object."""
    meta = obj["metadata"]
    name = meta.get("name", "")
    found = [] if name else [value_required("metadata.name", "name or generateName is required")]
    found += [value_invalid("metadata.name", name, why) for why in name_faults(name, kind.name_rule) if name]
    for key, value in (meta.get("labels") or {}).items():
        found += [value_invalid("metadata.labels", key, why) for why in key_faults(key)]
        found += [value_invalid("metadata.labels", value, why) for why in value_faults(value)]
    annotations = meta.get("annotations") or {}
    for key in annotations:
        found += [value_invalid("metadata.annotations", key, why) for why in key_faults(key.lower())]
    if sum(len(key) + len(value) for key, value in annotations.items()) > _MAX_ANNOTATIONS:
        text = f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes"
        found.append(Cause(field="metadata.annotations", reason="FieldValueTooLong", message=text))
    found += owner_references.faults(meta.get("ownerReferences") or [])
    finalizers = meta.get("finalizers") or []
    for index, finalizer in enumerate(finalizers):
        found += [value_invalid("metadata.finalizers", finalizer, why) for why in key_faults(finalizer)]
        lax = kind.custom or kind.plural in _ANY_FINALIZER
        if not lax and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(value_invalid(f"metadata.finalizers[{index}]", finalizer, why))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(value_invalid("metadata.finalizers", finalizers, why))
    return found


def changes_refused(obj: Untyped, old: Untyped) -> list[Cause]:
    """Return what an update must not change in metadata."""
    meta, was = obj["metadata"], old["metadata"]
    found = [
        value_invalid(f"metadata.{field}", meta.get(field), "field is immutable")
        for field in _IMMUTABLE
        if meta.get(field) != was.get(field)
    ]
    if was.get("deletionTimestamp"):
        new = {*(meta.get("finalizers") or ())}.difference(was.get("finalizers") or ())
        if new:
            quoted = ", ".join(quote(one) for one in sorted(new))
            why = "no new finalizers can be added if the object is being deleted, found new finalizers "
            found.append(value_forbidden("metadata.finalizers", f"{why}[]string{{{quoted}}}"))
    return found


def unqualified_finalizers(obj: Untyped, old: Untyped | None) -> tuple[str, ...]:
    """Return warnings about new finalizers of a custom object that others may choose, too."""
    there = (old or {}).get("metadata", {}).get("finalizers") or []
    return tuple(
        f'metadata.finalizers: "{one}": prefer a domain-qualified finalizer name to avoid accidental '
        "conflicts with other finalizer writers"
        for one in obj["metadata"].get("finalizers") or []
        if "/" not in one and one not in there
    )


def name_faults(name: str, rule: str) -> list[str]:
    """Return why a name cannot be one, in Kubernetes' words."""
    if rule == "name" and len(name) > 253:
        return ["must be no more than 253 characters", *_form_faults(name)]
    if rule == "path":
        found = [f"may not be '{name}'"] if name in (".", "..") else []
        return found + [f"may not contain '{char}'" for char in "/%" if char in name]
    if rule == "label":
        if len(name) > 63:
            return ["must be no more than 63 characters"]
        dotted = "." in name and re.fullmatch(object_names.SUBDOMAIN, name)
        return ["must not contain dots"] if dotted else label_faults(name)
    return ["must be no more than 253 bytes"] if len(name) > 253 else _form_faults(name)


def _form_faults(name: str) -> list[str]:
    return [] if re.fullmatch(object_names.SUBDOMAIN, name) else [object_names.SUBDOMAIN_WORDS]


def label_faults(name: str) -> list[str]:
    """Return why a text is no DNS label."""
    if len(name) > 63:
        return ["must be no more than 63 bytes"]
    return [] if re.fullmatch(object_names.LABEL, name) else [object_names.LABEL_WORDS]


def key_faults(key: str) -> list[str]:
    """Return why a text is no key of a label."""
    prefix, slash, name = key.rpartition("/")
    found = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {why}" for why in name_faults(prefix, "subdomain")]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        return [*found, "name part must be no more than 63 bytes"]
    if not re.fullmatch(object_names.QUALIFIED, name):
        found.append(object_names.NAME_PART_WORDS)
    return found


def value_faults(value: str) -> list[str]:
    """Return why a text is no value of a label."""
    if len(value) > 63:
        return ["must be no more than 63 bytes"]
    return [] if re.fullmatch(_VALUE_FORM, value) else [object_names.VALUE_WORDS]
