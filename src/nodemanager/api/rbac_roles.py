"""Roles that other roles make up: aggregation, and the compilation of everything for questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from nodemanager.api import selectors
from nodemanager.api.rbac import Object, Policy, Rule, Scope, objects_in, parse_rules


def aggregation_selectors(role: Object) -> list[Object]:
    """Return the selectors of a ClusterRole that others make up; none for a role with its own rules."""
    rule = role.get("aggregationRule")
    return objects_in(rule.get("clusterRoleSelectors")) if isinstance(rule, Mapping) else []


def aggregated(name: str, cluster_roles: Mapping[str, Object]) -> list[dict[str, Any]] | None:
    """Return the `rules` that an aggregating ClusterRole should have; None when it does not aggregate."""
    role = cluster_roles[name]
    if not aggregation_selectors(role):
        return None
    rules: list[dict[str, Any]] = []
    seen, waiting = {name}, [name]
    while waiting:  # each role once, so that roles which select each other come to an end
        current = cluster_roles[waiting.pop()]
        selectors_of = aggregation_selectors(current)
        if not selectors_of:
            rules += [dict(rule) for rule in objects_in(current.get("rules")) if rule not in rules]
        found = _selected_names(selectors_of, cluster_roles, seen)
        seen.update(found)
        waiting += reversed(found)
    return rules


def _selected_names(wanted: list[Object], roles: Mapping[str, Object], seen: set[str]) -> list[str]:
    """Return the roles that any of the selectors means, in the order of selectors and names."""
    chosen = [
        other
        for one in wanted
        for other in sorted(roles)
        if other not in seen and _selected(one, roles[other])
    ]
    return list(dict.fromkeys(chosen))


def _selected(selector: Mapping[str, Any], role: Object) -> bool:
    try:
        parsed = msgspec.convert(selector, selectors.LabelSelector)
        labels = msgspec.convert(role["metadata"].get("labels") or {}, dict[str, str])
    except msgspec.ValidationError:
        return False  # what nobody can read is not selected: that grants less, not more
    return selectors.matches(parsed, labels)


def compile_cluster(cluster_roles: Iterable[Object], bindings: Iterable[Object]) -> Scope:
    """Return what the cluster grants, with aggregation resolved as of now."""
    by_name = {str(role["metadata"]["name"]): role for role in cluster_roles}
    rules: dict[str, tuple[Rule, ...]] = {}
    for name, role in by_name.items():
        gathered = aggregated(name, by_name)
        rules[name] = parse_rules(role if gathered is None else {"rules": gathered})
    return Scope.compile("", rules, bindings)


def compile_namespace(namespace: str, roles: Iterable[Object], bindings: Iterable[Object]) -> Scope:
    """Return what the roles and bindings of one namespace grant."""
    rules = {str(role["metadata"]["name"]): parse_rules(role) for role in roles}
    return Scope.compile(namespace, rules, bindings)


def compile_policy(
    cluster: tuple[Iterable[Object], Iterable[Object]],
    namespace: str = "",
    local: tuple[Iterable[Object], Iterable[Object]] = ((), ()),
) -> Policy:
    """Return a policy from roles and bindings of the cluster and of one namespace."""
    return Policy(compile_cluster(*cluster), compile_namespace(namespace, *local) if namespace else None)
