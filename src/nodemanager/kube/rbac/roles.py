"""Aggregated roles, and the compilation of all roles and bindings for decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from nodemanager.kube import selectors
from nodemanager.kube.rbac.rules import Object, RoleScope, objects_in, parse_rules


def aggregation_selectors(role: Object) -> list[Object]:
    """Return the selectors of an aggregating ClusterRole; none for a role with its own rules."""
    rule = role.get("aggregationRule")
    return objects_in(rule.get("clusterRoleSelectors")) if isinstance(rule, Mapping) else []


def aggregated(cluster_roles: Mapping[str, Object]) -> dict[str, list[dict[str, Any]]]:
    """Return the `rules` that each aggregating ClusterRole should have, in Kubernetes' order.

    Those are the rules of the roles it selects, by selector and name, each rule once. What it selects
    may aggregate itself, so everybody is filled until nothing changes; starting from nothing, circles
    of roles come to an end and never keep a rule alive that no other role has.
    """
    chosen = {
        name: _selected_names(selectors_of, cluster_roles, name)
        for name, role in cluster_roles.items()
        if (selectors_of := aggregation_selectors(role))
    }
    known: dict[bytes, dict[str, Any]] = {}
    held = {name: [] if name in chosen else _keys(role, known) for name, role in cluster_roles.items()}
    for _ in chosen:  # as deep as roles can build on each other; a circle may never come to rest
        before = dict(held)
        for name, others in chosen.items():
            held[name] = list(dict.fromkeys(key for other in others for key in held[other]))
        if held == before:
            break
    return {name: [known[key] for key in held[name]] for name in chosen}


def _keys(role: Object, known: dict[bytes, dict[str, Any]]) -> list[bytes]:
    """Return a key for each rule of a role, equal for rules that say the same; `known` is added to."""
    keys = []
    for rule in objects_in(role.get("rules")):
        said = {field: value for field, value in rule.items() if value}
        keys.append(msgspec.json.encode(said, order="sorted"))
        known.setdefault(keys[-1], said)
    return keys


def _selected_names(wanted: list[Object], roles: Mapping[str, Object], but: str) -> list[str]:
    """Return the roles that any of the selectors means, in the order of selectors and names."""
    names = (other for one in wanted for other in sorted(roles) if _selected(one, roles[other]))
    return [name for name in dict.fromkeys(names) if name != but]


def _selected(selector: Mapping[str, Any], role: Object) -> bool:
    try:
        parsed = msgspec.convert(selector, selectors.LabelSelector)
        labels = msgspec.convert(role["metadata"].get("labels") or {}, dict[str, str])
    except msgspec.ValidationError:
        return False  # a selector that cannot be read selects nothing: that grants less, not more
    return selectors.matches(parsed, labels)


def compile_cluster(cluster_roles: Iterable[Object], bindings: Iterable[Object]) -> RoleScope:
    """Return what the cluster grants, with aggregation resolved as of now."""
    by_name = {str(role["metadata"]["name"]): role for role in cluster_roles}
    gathered = aggregated(by_name)
    rules = {
        name: parse_rules({"rules": gathered[name]} if name in gathered else role)
        for name, role in by_name.items()
    }
    return RoleScope.compile("", rules, bindings)


def compile_namespace(namespace: str, roles: Iterable[Object], bindings: Iterable[Object]) -> RoleScope:
    """Return what the roles and bindings of one namespace grant."""
    rules = {str(role["metadata"]["name"]): parse_rules(role) for role in roles}
    return RoleScope.compile(namespace, rules, bindings)
