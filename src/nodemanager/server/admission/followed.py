"""The policies of the store with their bindings, compiled: a change of one counts from the next request on.

store -> hooks (policy, its bindings; compiled once per revision) -> match
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from nodemanager.kube.admission.constraints import EXEMPT, AdmissionTarget, Constraints, read_constraints
from nodemanager.kube.objects import Untyped
from nodemanager.server.admission.policy.requests import PolicyRequest
from nodemanager.server.hub import AdmissionRequest, Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored
from nodemanager.store.base import StoreRecord


class CompiledPolicy(Protocol):
    """What policies of both kinds have."""

    @property
    def name(self) -> str:
        """The name of the policy."""

    @property
    def constraints(self) -> Constraints:
        """Which requests it is about."""


PolicyT = TypeVar("PolicyT", bound=CompiledPolicy)


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """A binding of a policy, compiled."""

    name: str
    policy: str
    constraints: Constraints | None
    actions: frozenset[str]
    param_ref: Mapping[str, Any] | None

    def is_about(self, request: PolicyRequest) -> bool:
        """Tell whether the binding leaves a request to its policy."""
        limits = self.constraints
        return not limits or limits.match(request.target, request.labels, request.equivalents) is not None


@dataclass(frozen=True, slots=True)
class Hook(Generic[PolicyT]):
    """A policy with a binding."""

    policy: PolicyT
    bindings: tuple[PolicyBinding, ...]

    def match(self, request: PolicyRequest) -> AdmissionTarget | None:
        """Return what the request is about, as the policy names it; None if the policy is not meant."""
        return self.policy.constraints.match(request.target, request.labels, request.equivalents)


class FollowedPolicies(Generic[PolicyT]):
    """The bound policies of one kind, in the order of their names."""

    def __init__(
        self, hub: Hub, policies: ServedKind, bindings: ServedKind, read: Callable[[Untyped], PolicyT]
    ) -> None:
        self._hub = hub
        self._kinds = policies, bindings
        self._read = read
        self._looked_at = -1
        self._seen: list[tuple[str, int]] = []
        self._hooks: tuple[Hook[PolicyT], ...] = ()
        self._compiled: dict[tuple[str, int], PolicyT] = {}

    def about(self, change: AdmissionRequest) -> tuple[Hook[PolicyT], ...]:
        """Return the policies that may have to do with a change; none has with what policies cannot touch."""
        self._follow()
        return () if (change.kind.group, change.kind.plural) in EXEMPT else self._hooks

    def _follow(self) -> None:
        """Read policies and bindings again if one of them changed since we last looked."""
        store = self._hub.store
        if store.revision == self._looked_at:
            return
        self._looked_at = store.revision
        policies, bindings = (store.list(kind.prefix()).records for kind in self._kinds)
        seen = [_key(record) for record in (*policies, *bindings)]
        if seen != self._seen:
            self._seen = seen
            self._compiled = {_key(record): self._compile(record) for record in policies}
            self._hooks = tuple(self._bound(bindings))

    def _compile(self, record: StoreRecord) -> PolicyT:
        known = self._compiled.get(_key(record))
        return known or self._read(stored.load(self._kinds[0], record))

    def _bound(self, records: list[StoreRecord]) -> Iterator[Hook[PolicyT]]:
        bound: dict[str, list[PolicyBinding]] = {}
        for record in records:
            binding = _binding(stored.load(self._kinds[1], record))
            bound.setdefault(binding.policy, []).append(binding)
        for policy in self._compiled.values():
            if policy.name in bound:
                yield Hook(policy, tuple(bound[policy.name]))


def _key(record: StoreRecord) -> tuple[str, int]:
    return record.key, record.revision


def _binding(obj: Untyped) -> PolicyBinding:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    limits = spec.get("matchResources")
    return PolicyBinding(
        name=str(obj["metadata"]["name"]),
        policy=str(spec.get("policyName", "")),
        constraints=read_constraints(limits) if limits is not None else None,
        actions=frozenset(spec.get("validationActions") or ()),
        param_ref=spec.get("paramRef"),
    )
