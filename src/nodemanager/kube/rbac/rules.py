"""RBAC as a pure function: rules, their subjects, and whether these rules suffice.

Objects are plain JSON. A `RoleScope` is what one place (the cluster, or one namespace) grants, compiled
once and asked often; an `RbacPolicy` is the cluster's scope with the one of a namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from nodemanager.kube.go.text import quote
from nodemanager.kube.rbac.identity import MASTERS, Attributes, User, service_account_user

GROUP: Final = "rbac.authorization.k8s.io"
ALL: Final = "*"

Object = Mapping[str, Any]


class AccessDecision(NamedTuple):
    """The answer, and the reason that reviews show."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule of a role."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def parse(cls, rule: Object) -> PolicyRule:
        """Read a rule from JSON; what is missing or of another type is empty, and so grants nothing."""
        keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(_strings(rule.get(key)) for key in keys))

    def allows(self, asked: Attributes) -> bool:
        """Tell whether this rule alone permits what is asked."""
        if not _has(self.verbs, asked.verb):
            return False
        if asked.about_path:
            return any(path_covers(path, asked.path) for path in self.paths)
        return (
            _has(self.groups, asked.group)
            and self._has_resource(asked)
            and (not self.names or asked.name in self.names)
        )

    def _has_resource(self, asked: Attributes) -> bool:
        if _has(self.resources, asked.full_resource):
            return True
        return bool(asked.subresource) and f"*/{asked.subresource}" in self.resources


def path_covers(pattern: str, path: str) -> bool:
    """Tell whether a path of a rule, which may end in `*`, covers a path."""
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def _has(wanted: Sequence[str], one: str) -> bool:
    return ALL in wanted or one in wanted


def parse_rules(role: Object) -> tuple[PolicyRule, ...]:
    """Read the rules of a Role or ClusterRole."""
    return tuple(PolicyRule.parse(rule) for rule in objects_in(role.get("rules")))


def objects_in(value: Any) -> list[Object]:
    """Return the objects of a list; one unreadable object must not stop all decisions."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _text(obj: Object, key: str) -> str:
    value = obj.get(key)
    return value if isinstance(value, str) else ""


class Grant(NamedTuple):
    """Rules that a user holds, and by which binding."""

    source: str
    rules: tuple[PolicyRule, ...]


class Held(NamedTuple):
    """All that a user holds in one place, and the bindings to roles that do not exist."""

    grants: list[Grant]
    missing: list[Object]
    """References to roles that do not exist."""

    def rules(self) -> Iterator[PolicyRule]:
        """Return every rule, in the order of the bindings."""
        for grant in self.grants:
            yield from grant.rules

    def errors(self, resource: str = "") -> str:
        """Return what Kubernetes says about the missing roles, or nothing.

        On a write it names the resource that is written, and not the role's own.
        """
        texts = [
            f"{resource or _text(ref, 'kind').lower()}.{GROUP} {quote(_text(ref, 'name'))} not found"
            for ref in self.missing
        ]
        unique = list(dict.fromkeys(texts))
        return f"[{', '.join(unique)}]" if len(unique) > 1 else "".join(unique)


class _Match(NamedTuple):
    order: int
    subject: int


@dataclass(slots=True)
class RoleScope:
    """The roles and bindings of the cluster, or of one namespace."""

    namespace: str
    roles: Mapping[str, tuple[PolicyRule, ...]]
    bindings: list[Object]
    _index: dict[tuple[str, str], list[_Match]] = field(default_factory=dict)

    @classmethod
    def compile(
        cls, namespace: str, roles: Mapping[str, tuple[PolicyRule, ...]], bindings: Iterable[Object]
    ) -> RoleScope:
        """Index bindings by subject: with a binding per host, looking through all would be slow."""
        scope = cls(namespace, roles, sorted(bindings, key=lambda one: str(one["metadata"]["name"])))
        for order, binding in enumerate(scope.bindings):
            if not isinstance(binding.get("roleRef"), Mapping):
                continue
            for position, subject in enumerate(objects_in(binding.get("subjects"))):
                key = _subject_key(subject, namespace)
                if key is not None:
                    scope._index.setdefault(key, []).append(_Match(order, position))
        return scope

    def bound(self, user: User) -> Iterator[tuple[Object, Object]]:
        """Return the bindings that name a user, each with the first subject that does."""
        first: dict[int, int] = {}
        keys = [("User", user.name), *(("Group", group) for group in user.groups)]
        for key in keys:
            for match in self._index.get(key, ()):
                first[match.order] = min(match.subject, first.get(match.order, match.subject))
        for order in sorted(first):
            binding = self.bindings[order]
            yield binding, objects_in(binding["subjects"])[first[order]]


def _subject_key(subject: Object, namespace: str) -> tuple[str, str] | None:
    kind, name = _text(subject, "kind"), _text(subject, "name")
    if kind in {"User", "Group"}:
        return kind, name
    account_namespace = _text(subject, "namespace") or namespace
    if kind != "ServiceAccount" or not account_namespace:
        return None
    return "User", service_account_user(account_namespace, name)


@dataclass(frozen=True, slots=True)
class RbacPolicy:
    """What decides in one namespace, or (without one) about everything outside of namespaces."""

    cluster: RoleScope
    local: RoleScope | None = None

    def held(self, user: User) -> Held:
        """Return what a user holds here."""
        held = Held([], [])
        for scope in (self.cluster, self.local):
            for binding, subject in scope.bound(user) if scope else ():
                rules = self.referred(binding["roleRef"], scope)
                if rules is None:
                    held.missing.append(binding["roleRef"])
                else:
                    held.grants.append(Grant(_source(binding, subject, scope), rules))
        return held

    def referred(self, ref: Object, scope: RoleScope | None) -> tuple[PolicyRule, ...] | None:
        """Return the rules of the role a binding in that scope refers to, or None when it is missing."""
        name = _text(ref, "name")
        if ref.get("kind") == "ClusterRole":
            return self.cluster.roles.get(name)
        return scope.roles.get(name) if scope is not None and scope.namespace else None


def _source(binding: Object, subject: Object, scope: RoleScope | None) -> str:
    namespace = scope.namespace if scope else ""
    kind, name = ("RoleBinding", "/" + namespace) if namespace else ("ClusterRoleBinding", "")
    ref = binding["roleRef"]
    title = quote(str(binding["metadata"]["name"]) + name)
    who = _text(subject, "name")
    if subject["kind"] == "ServiceAccount":
        who += "/" + (_text(subject, "namespace") or namespace)
    role = f"{_text(ref, 'kind')} {quote(_text(ref, 'name'))}"
    return f"{kind} {title} of {role} to {subject['kind']} {quote(who)}"


def allowed(user: User, asked: Attributes, policy: RbacPolicy) -> AccessDecision:
    """Tell whether a user may do something; `policy` is that of the namespace asked about."""
    if MASTERS in user.groups:
        return AccessDecision(True)
    held = policy.held(user)
    for grant in held.grants:
        if any(rule.allows(asked) for rule in grant.rules):
            return AccessDecision(True, f"RBAC: allowed by {grant.source}")
    errors = held.errors()
    return AccessDecision(False, f"RBAC: {errors}" if errors else "")
