"""Users cannot grant more than they have: the writer of a role or a binding must hold its rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nodemanager.kube.go.text import quote
from nodemanager.kube.rbac.identity import MASTERS, User
from nodemanager.kube.rbac.rules import ALL, PolicyRule, RbacPolicy, path_covers

FULL_AUTHORITY: Final = (
    PolicyRule(verbs=(ALL,), groups=(ALL,), resources=(ALL,)),
    PolicyRule(verbs=(ALL,), paths=(ALL,)),
)
"""What the author of an aggregation rule must hold, because the rule can gather anything."""
MAX_ATOMS: Final = 10_000
"""How many single permissions are compared: short lists in one rule can multiply to very many."""
NEEDS_ADMIN: Final = "must have cluster-admin privileges to use the aggregationRule"


def may_escalate(user: User) -> bool:
    """Tell whether these checks do not apply to a user."""
    return MASTERS in user.groups


def atoms(rules: Iterable[PolicyRule]) -> Iterator[PolicyRule]:
    """Split rules into the smallest ones: one verb on one resource or path each."""
    for rule in rules:
        for group in rule.groups:
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.names or ("",):
                        yield PolicyRule((verb,), (group,), (resource,), (name,) if rule.names else ())
        for path in rule.paths:
            for verb in rule.verbs:
                yield PolicyRule(verbs=(verb,), paths=(path,))


def _size(rule: PolicyRule) -> int:
    resources = len(rule.groups) * len(rule.resources) * max(len(rule.names), 1)
    return len(rule.verbs) * (resources + len(rule.paths))


def missing(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the atoms of the wanted rules that no owned rule covers."""
    return [atom for atom in atoms(wanted) if not any(_covers(rule, atom) for rule in owned)]


def _covers(rule: PolicyRule, atom: PolicyRule) -> bool:
    if not _has_all(rule.verbs, atom.verbs):
        return False
    if atom.paths:
        return any(path_covers(path, atom.paths[0]) for path in rule.paths) and not rule.names
    if not _has_all(rule.groups, atom.groups) or not _has_resource(rule.resources, atom.resources[0]):
        return False
    return not rule.names or (bool(atom.names) and atom.names[0] in rule.names)


def _has_all(have: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return ALL in have or all(one in have for one in wanted)


def _has_resource(have: tuple[str, ...], wanted: str) -> bool:
    if ALL in have or wanted in have:
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in have


def escalation(user: User, wanted: Sequence[PolicyRule], policy: RbacPolicy, resource: str) -> str:
    """Return why a user may not grant these rules, in Kubernetes' words, or nothing when they may.

    `resource` is the plural of what is about to be written.
    """
    if sum(map(_size, wanted)) > MAX_ATOMS:
        return f"cannot check rules that spell out more than {MAX_ATOMS} permissions: use wildcards"
    held = policy.held(user)
    lacking = missing(list(held.rules()), wanted)
    if not lacking:
        return ""
    lines = "\n".join(sorted(set(map(_described, _compacted(lacking)))))
    text = (
        f"user {quote(user.name)} (groups={_quoted(user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{lines}"
    )
    errors = held.errors(resource)
    return f"{text}; resolution errors: [{errors}]" if errors else text


def _compacted(rules: list[PolicyRule]) -> list[PolicyRule]:
    """Join what differs only in the verb, so that the text stays readable."""
    joined: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    paths = [rule for rule in rules if rule.paths]
    for rule in rules:
        if not rule.paths:
            joined.setdefault((rule.groups, rule.resources, rule.names), []).extend(rule.verbs)
    return paths + [PolicyRule(tuple(verbs), *key) for key, verbs in joined.items()]


def _described(rule: PolicyRule) -> str:
    parts = {
        "APIGroups": rule.groups, "Resources": rule.resources, "NonResourceURLs": rule.paths,
        "ResourceNames": rule.names, "Verbs": rule.verbs,
    }  # fmt: skip
    return "{" + ", ".join(f"{title}:{_quoted(values)}" for title, values in parts.items() if values) + "}"


def _quoted(values: Iterable[str]) -> str:
    return "[" + " ".join(map(quote, values)) + "]"
