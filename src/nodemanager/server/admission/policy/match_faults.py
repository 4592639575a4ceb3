"""Match constraints as they are written: their defaults, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nodemanager.kube.errors import Cause
from nodemanager.server.http.refusals import (
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_required,
    value_unsupported,
)
from nodemanager.server.verbs import metadata

Spec = Mapping[str, Any]
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


def prepare(constraints: Any) -> None:
    """Fill in the defaults of match constraints."""
    if not isinstance(constraints, dict):
        return
    constraints.setdefault("matchPolicy", "Equivalent")
    constraints.setdefault("namespaceSelector", {})
    constraints.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in constraints.get(field) or []:
            if isinstance(rule, dict):
                rule.setdefault("scope", "*")


def faults(path: str, constraints: Spec) -> Iterator[Cause]:
    """Yield what is wrong with match constraints."""
    policy = constraints.get("matchPolicy")
    if not policy:
        yield value_required(f"{path}.matchPolicy")
    elif policy not in ("Equivalent", "Exact"):
        yield value_unsupported(f"{path}.matchPolicy", policy, ("Equivalent", "Exact"))
    for field in ("namespaceSelector", "objectSelector"):
        if constraints.get(field) is None:
            yield value_required(f"{path}.{field}")
        else:
            yield from selector(f"{path}.{field}", constraints[field])
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(constraints.get(field) or []):
            yield from _rule(f"{path}.{field}[{index}]", rule)


def selector(path: str, given: Spec) -> Iterator[Cause]:
    """Yield what is wrong with a label selector."""
    for key, value in (given.get("matchLabels") or {}).items():
        for why in metadata.key_faults(key):
            yield value_invalid(f"{path}.matchLabels", key, why)
        for why in metadata.value_faults(value):
            yield value_invalid(f"{path}.matchLabels", value, why)
    for index, each in enumerate(given.get("matchExpressions") or []):
        yield from _requirement(f"{path}.matchExpressions[{index}]", each)


def _requirement(path: str, given: Spec) -> Iterator[Cause]:
    operator, values = given.get("operator", ""), given.get("values") or []
    if operator in _WITH_VALUES and not values:
        yield value_required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT_VALUES and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield value_forbidden(f"{path}.values", why)
    elif operator not in _WITH_VALUES + _WITHOUT_VALUES:
        yield value_invalid(f"{path}.operator", operator, "not a valid selector operator")
    key = str(given.get("key") or "")
    for why in metadata.key_faults(key):
        yield value_invalid(f"{path}.key", key, why)
    for index, value in enumerate(values):
        for why in metadata.value_faults(value):
            yield value_invalid(f"{path}.values[{index}]", value, why)


def _rule(path: str, rule: Spec) -> Iterator[Cause]:
    names: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or []):
        for why in metadata.name_faults(name, "path"):
            yield value_invalid(f"{path}.resourceNames[{index}]", name, why)
        if name in names:
            yield value_duplicate(f"{path}.resourceNames[{index}]", name)
        names.add(name)
    operations = rule.get("operations") or []
    yield from _list(f"{path}.operations", operations, "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield value_unsupported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    yield from _list(f"{path}.apiGroups", rule.get("apiGroups") or [], "API groups")
    versions = rule.get("apiVersions") or []
    yield from _list(f"{path}.apiVersions", versions, "API versions")
    for index, version in enumerate(versions):
        if not version:
            yield value_required(f"{path}.apiVersions[{index}]")
    yield from _resources(f"{path}.resources", rule.get("resources") or [])
    scope = rule.get("scope")
    if scope is not None and scope not in _SCOPES:
        yield value_unsupported(f"{path}.scope", scope, _SCOPES)


def _list(path: str, values: list[str], what: str) -> Iterator[Cause]:
    if not values:
        yield value_required(path)
    if len(values) > 1 and "*" in values:
        yield value_invalid(path, values, f"if '*' is present, must not specify other {what}")


def _resources(path: str, resources: list[str]) -> Iterator[Cause]:
    if not resources:
        yield value_required(path)
    yield from _subresources(path, resources)
    if len(resources) > 1 and "*/*" in resources:
        yield value_invalid(path, resources, "if '*/*' is present, must not specify other resources")
    plain = [each for each in resources if each and "/" not in each]
    if "*" in plain and plain[-1] != "*":  # Kubernetes looks at the last one only, and so do we
        why = "if '*' is present, must not specify other resources without subresources"
        yield value_invalid(path, resources, why)


def _subresources(path: str, resources: list[str]) -> Iterator[Cause]:
    whole: set[str] = set()
    parts: set[str] = set()
    for index, each in enumerate(resources):
        if not each:
            yield value_required(f"{path}[{index}]")
        resource, slash, part = each.partition("/")
        if not slash:
            continue
        for seen, wildcard in ((resource in whole, f"{resource}/*"), (part in parts, f"*/{part}")):
            if seen:
                why = f"if '{wildcard}' is present, must not specify {each}"
                yield value_invalid(f"{path}[{index}]", each, why)
        if part == "*":
            whole.add(resource)
        if resource == "*":
            parts.add(part)
