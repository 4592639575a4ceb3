"""CustomResourceDefinitions: what may be defined, when it is served, and as what."""

from __future__ import annotations

import re

from nodemanager.kube.cel.rules import check_rules
from nodemanager.kube.errors import Cause
from nodemanager.kube.json_values import copy_of
from nodemanager.kube.objects import Untyped
from nodemanager.kube.schemas import checks
from nodemanager.server.http.refusals import value_forbidden, value_invalid, value_required, value_unsupported
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import BUILTIN, CRDS
from nodemanager.server.kinds.resources import (
    CUSTOM_VERBS,
    STATUS_VERBS,
    Catalogue,
    PrinterColumn,
    ServedKind,
    version_order,
)
from nodemanager.server.verbs import jsonpath, stored
from nodemanager.server.verbs.metadata import label_faults, name_faults

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_KIND_NAME = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_VERSION_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_COLUMN_TYPES = ("integer", "number", "string", "boolean", "date")


def prepare(hub: Hub, obj: Untyped, old: Untyped | None) -> None:
    """Fill in the names that follow from others, and decide whether the names are free."""
    spec = obj["spec"] = copy_of(obj.get("spec", {}))
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", str(names["kind"]).lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    now = hub.timestamp()
    status = dict(obj.get("status") or (old or {}).get("status") or {})
    storage = [version.get("name") for version in _versions(obj) if version.get("storage")]
    kept = [name for name in status.get("storedVersions") or [] if name not in storage]
    status["storedVersions"] = kept + storage
    taken = _taken(hub, obj)
    accepted = (
        ("NamesAccepted", "False", taken[0], taken[1])
        if taken
        else ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    )
    before = {one["type"]: one for one in status.get("conditions") or []}
    wanted = [accepted]
    if taken and before.get("Established", {}).get("status") != "True":
        wanted.append(("Established", "False", "NotAccepted", "not all names are accepted"))
    elif not taken:
        text = "the initial names have been accepted"
        wanted.append(("Established", "True", "InitialNamesAccepted", text))
    for one in wanted:
        before[one[0]] = _condition(before.get(one[0]), one, now)
    status["conditions"] = list(before.values())
    if not taken:
        status["acceptedNames"] = {key: value for key, value in names.items() if value}
    obj["status"] = status


def _condition(before: Untyped | None, wanted: tuple[str, str, str, str], now: str) -> Untyped:
    kind, state, reason, message = wanted
    if before is not None and before.get("status") == state:
        now = before.get("lastTransitionTime", now)
    return {"type": kind, "status": state, "lastTransitionTime": now, "reason": reason, "message": message}


def _taken(hub: Hub, obj: Untyped) -> tuple[str, str] | None:
    """Return reason and message if another definition of the group has one of the names."""
    spec, own = obj["spec"], obj["metadata"].get("name")
    found: list[tuple[str, str]] = []
    for record in hub.store.list(CRDS.prefix()).records:
        other = stored.load(CRDS, record)
        if other["metadata"]["name"] != own and other["spec"]["group"] == spec.get("group"):
            found += _conflicts(spec["names"], (other.get("status") or {}).get("acceptedNames") or {})
    return found[-1] if found else None


def _conflicts(names: Untyped, accepted: Untyped) -> list[tuple[str, str]]:
    words = {accepted.get("plural"), accepted.get("singular"), *(accepted.get("shortNames") or ())}
    kinds = {accepted.get("kind"), accepted.get("listKind")}
    wanted = [("Plural", names.get("plural"), words), ("Singular", names.get("singular"), words)]
    wanted += [("ShortNames", short, words) for short in names.get("shortNames") or ()]
    wanted += [("Kind", names.get("kind"), kinds), ("ListKind", names.get("listKind"), kinds)]
    return [
        (f"{what}Conflict", f'"{name}" is already in use') for what, name, taken in wanted if name in taken
    ]


def faults(obj: Untyped, old: Untyped | None) -> list[Cause]:
    """Return what is wrong with a definition."""
    spec, names = obj["spec"], obj["spec"]["names"]
    plural, group = names.get("plural", ""), spec.get("group", "")
    found = []
    if obj["metadata"].get("name") != f"{plural}.{group}":
        why = 'must be spec.names.plural+"."+spec.group'
        found.append(value_invalid("metadata.name", obj["metadata"].get("name", ""), why))
    found += _group_faults(group)
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        known = ("Cluster", "Namespaced")
        given = value_unsupported("spec.scope", spec.get("scope"), known)
        found.append(given if spec.get("scope") else value_required("spec.scope"))
    if old is None or spec.get("versions") != old["spec"].get("versions"):  # or it was found good before
        found += _version_faults(spec)
    found += _names_faults(names)
    if (spec.get("conversion") or {}).get("strategy") != "None":
        why = "this server converts by changing apiVersion only"
        found.append(value_forbidden("spec.conversion.strategy", why))
    if old is not None:
        for field in ("group", "scope"):
            if spec.get(field) != old["spec"].get(field):
                found.append(value_invalid(f"spec.{field}", spec.get(field), "field is immutable"))
    return found


def _group_faults(group: str) -> list[Cause]:
    if not group:
        return [value_required("spec.group")]
    found = [value_invalid("spec.group", group, why) for why in name_faults(group, "subdomain")]
    if "." not in group:
        found.append(value_invalid("spec.group", group, "should be a domain with at least one dot"))
    if any(kind.group == group for kind in BUILTIN):
        found.append(value_forbidden("spec.group", "this group is the server's own"))
    return found


def _names_faults(names: Untyped) -> list[Cause]:
    found = []
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field)
        if not value:
            found.append(value_required(f"spec.names.{field}"))
        elif field in ("kind", "listKind"):
            if not _KIND_NAME.fullmatch(str(value)):
                why = "may have mixed case, but should otherwise match a DNS-1035 label"
                found.append(value_invalid(f"spec.names.{field}", value, why))
        else:
            found += [value_invalid(f"spec.names.{field}", value, why) for why in label_faults(str(value))]
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        why = "kind and listKind may not be the same"
        found.append(value_invalid("spec.names.listKind", names["listKind"], why))
    return found


def _version_faults(spec: Untyped) -> list[Cause]:
    versions = spec.get("versions") or []
    found: list[Cause] = []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        found.append(value_invalid("spec.versions", versions or None, why))
    names = [version.get("name") for version in versions]
    for index, version in enumerate(versions):
        at = f"spec.versions[{index}]"
        if not _VERSION_NAME.fullmatch(str(version.get("name", ""))):
            found.append(value_invalid(f"{at}.name", version.get("name", ""), "must be a DNS-1035 label"))
        if names.count(version.get("name")) > 1:
            found.append(value_invalid(f"{at}.name", version.get("name"), "must be unique"))
        if "scale" in (version.get("subresources") or {}):
            found.append(value_forbidden(f"{at}.subresources.scale", "this server does not serve it"))
        found += _schema_faults(version, at) + _column_faults(version, at)
    return found


def _schema_faults(version: Untyped, at: str) -> list[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    path = f"{at}.schema.openAPIV3Schema"
    if not schema:
        return [value_required(path)]
    return checks.check_schema(schema, path) or check_rules(schema, path)


def _column_faults(version: Untyped, at: str) -> list[Cause]:
    found = []
    for index, column in enumerate(version.get("additionalPrinterColumns") or []):
        here = f"{at}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            found.append(value_required(f"{here}.name"))
        if column.get("type") not in _COLUMN_TYPES:
            known = ",".join(_COLUMN_TYPES)
            found.append(value_invalid(f"{here}.type", column.get("type"), f"must be one of {known}"))
        try:
            jsonpath.compile_path(str(column.get("jsonPath", "")))
        except jsonpath.PathError as error:
            found.append(value_invalid(f"{here}.jsonPath", column.get("jsonPath", ""), str(error)))
    return found


def is_established(obj: Untyped) -> bool:
    """Tell whether a definition is served."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def serve(catalogue: Catalogue, obj: Untyped) -> None:
    """Serve what a definition defines, as it is now."""
    name = obj["metadata"]["name"]
    if not is_established(obj):
        catalogue.forget(name)
        return
    catalogue.define(name, kinds_of(obj))


def kinds_of(obj: Untyped) -> tuple[ServedKind, ...]:
    """Return what a definition defines: one kind for each version that it serves."""
    return tuple(_kind(obj, version) for version in _versions(obj) if version.get("served"))


def _versions(obj: Untyped) -> list[Untyped]:
    return [version for version in obj["spec"].get("versions") or [] if isinstance(version, dict)]


def _kind(obj: Untyped, version: Untyped) -> ServedKind:
    spec, names = obj["spec"], obj["spec"]["names"]
    subresources = {"status": STATUS_VERBS} if "status" in (version.get("subresources") or {}) else {}
    fields = tuple(one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or [])
    return ServedKind(
        spec["group"], version["name"], names["kind"], names["plural"], spec["scope"] == "Namespaced",
        names.get("singular", ""), names.get("listKind", ""), tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()), CUSTOM_VERBS, subresources, fields,
        version["schema"]["openAPIV3Schema"], _columns(version), custom=True, counted=True,
        unconditional=False,
        warning=_deprecation(spec, version) if version.get("deprecated") else "",
    )  # fmt: skip


def _deprecation(spec: Untyped, version: Untyped) -> str:
    """Return what users of a deprecated version are told; without words of its own, what to use instead."""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    served = [one["name"] for one in spec["versions"] if one.get("served") and not one.get("deprecated")]
    best = min([*served, version["name"]], key=version_order)
    better = "" if best == version["name"] else f"; use {group}/{best} {kind}"
    return f"{group}/{version['name']} {kind} is deprecated{better}"


def _columns(version: Untyped) -> tuple[PrinterColumn, ...]:
    return tuple(
        PrinterColumn(
            one["name"], one["type"], one["jsonPath"], one.get("description", ""), one.get("format", ""),
            one.get("priority", 0),
        )
        for one in version.get("additionalPrinterColumns") or []
    )  # fmt: skip
