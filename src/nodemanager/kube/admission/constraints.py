"""Which requests a policy is about: resource rules, exclusions and selectors, as pure functions.

The same words mean the same as in kube-apiserver: `pods/*` is every subresource of pods, `*` every
resource without its subresources, `*/*` everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from nodemanager.kube.selectors import LabelSelector, matches

EXEMPT: frozenset[tuple[str, str]] = frozenset(
    (
        *(
            ("admissionregistration.k8s.io", plural)
            for plural in (
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
                "mutatingwebhookconfigurations",
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                "validatingwebhookconfigurations",
            )
        ),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
)
"""Policies cannot refuse changes of these, so that people who locked themselves out can undo it."""

ALL = "*"
Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AdmissionTarget:
    """What a request is about, as far as rules look at it."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    """For a Namespace, its own name."""
    name: str = ""

    @property
    def is_namespace(self) -> bool:
        """Whether this is about a Namespace itself."""
        return (self.group, self.version, self.resource) == ("", "v1", "namespaces")


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels that selectors look at; None where there is no such object."""

    namespace: Mapping[str, str] | None = None
    new: Mapping[str, str] | None = None
    old: Mapping[str, str] | None = None


Look = Callable[[], Labels]
Others = Callable[[], Sequence[AdmissionTarget]]


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """One resource rule."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resource and subresource."""
    scope: str = ALL
    names: frozenset[str] = frozenset()

    def matches(self, target: AdmissionTarget) -> bool:
        """Tell whether the rule is about a request."""
        return (
            self._in_scope(target)
            and (ALL in self.operations or target.operation in self.operations)
            and (ALL in self.groups or target.group in self.groups)
            and (ALL in self.versions or target.version in self.versions)
            and any(
                resource in (ALL, target.resource) and subresource in (ALL, target.subresource)
                for resource, subresource in self.resources
            )
            and (not self.names or target.name in self.names)
        )

    def _in_scope(self, target: AdmissionTarget) -> bool:
        if self.scope == ALL:
            return True
        namespaced = bool(target.namespace) and not target.is_namespace
        return namespaced == (self.scope == "Namespaced") and self.scope in ("Namespaced", "Cluster")


@dataclass(frozen=True, slots=True)
class Constraints:
    """All of matchConstraints, or of a binding's matchResources."""

    rules: tuple[ResourceRule, ...] = ()
    excluded: tuple[ResourceRule, ...] = ()
    namespaces: LabelSelector = field(default_factory=LabelSelector)
    objects: LabelSelector = field(default_factory=LabelSelector)
    exact: bool = False

    def match(
        self, target: AdmissionTarget, look: Look, equivalents: Others = tuple
    ) -> AdmissionTarget | None:
        """Return the target as the rules name it, or None; `equivalents` are its other versions.

        Labels and versions cost something to find out, so they are asked for only where they matter.
        """
        others: Others = tuple if self.exact else equivalents
        found = target if not self.rules else _first(self.rules, target, others)
        if found is None or _first(self.excluded, target, others) is not None:
            return None
        return found if self._selected(target, look) else None

    def _selected(self, target: AdmissionTarget, look: Look) -> bool:
        in_namespace = bool(target.namespace) or target.resource == "namespaces"
        if in_namespace and not _is_empty(self.namespaces):
            labels = look().namespace
            if not matches(self.namespaces, labels or {}):
                return False
        if _is_empty(self.objects):
            return True
        sides = (look().new, look().old)
        return any(each is not None and matches(self.objects, each) for each in sides)


def _is_empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def _first(rules: Sequence[ResourceRule], target: AdmissionTarget, others: Others) -> AdmissionTarget | None:
    if any(rule.matches(target) for rule in rules):
        return target
    pairs = ((rule, other) for rule in rules for other in others())
    return next((other for rule, other in pairs if rule.matches(other)), None)


def read_constraints(spec: Spec | None) -> Constraints:
    """Return the compiled form of a checked `matchConstraints` or `matchResources`."""
    given = spec or {}
    return Constraints(
        rules=tuple(_rule(each) for each in given.get("resourceRules") or ()),
        excluded=tuple(_rule(each) for each in given.get("excludeResourceRules") or ()),
        namespaces=read_selector(given.get("namespaceSelector")),
        objects=read_selector(given.get("objectSelector")),
        exact=given.get("matchPolicy") == "Exact",
    )


def read_selector(spec: Spec | None) -> LabelSelector:
    """Return a label selector from its JSON form."""
    return msgspec.convert(spec or {}, LabelSelector)


def _rule(spec: Spec) -> ResourceRule:
    resources = tuple(
        (resource, subresource)
        for resource, _, subresource in (str(each).partition("/") for each in spec.get("resources") or ())
    )
    return ResourceRule(
        operations=frozenset(spec.get("operations") or ()),
        groups=frozenset(spec.get("apiGroups") or ()),
        versions=frozenset(spec.get("apiVersions") or ()),
        resources=resources,
        scope=str(spec.get("scope") or ALL),
        names=frozenset(spec.get("resourceNames") or ()),
    )


def as_version(target: AdmissionTarget, group: str, version: str, resource: str) -> AdmissionTarget:
    """Return the same target under another of its names."""
    return replace(target, group=group, version=version, resource=resource)
