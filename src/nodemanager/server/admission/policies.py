"""Enforces ValidatingAdmissionPolicies: a change of a policy counts from the next request on.

    store -> hooks (policy, its bindings; compiled once per revision) -> match -> params -> evaluate
          -> deny with a Status, warn in a header, or nothing

There is no audit log here, so the action Audit and audit annotations leave no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.kube.admission import policies as admission_policies
from nodemanager.kube.admission.constraints import EXEMPT, AdmissionTarget, Constraints, read_constraints
from nodemanager.kube.admission.expressions import Budget
from nodemanager.kube.admission.policies import AdmissionPolicy, Inputs, Refusal
from nodemanager.kube.cel.lib.authz import AuthorizerValue
from nodemanager.kube.errors import Cause, StatusError
from nodemanager.kube.objects import Untyped
from nodemanager.kube.rbac.identity import Attributes
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.admission import policy_params
from nodemanager.server.admission.policy_params import ParamError
from nodemanager.server.admission.policy_requests import PolicyRequest
from nodemanager.server.http import refusals
from nodemanager.server.hub import AdmissionRequest, Hub
from nodemanager.server.kinds.builtin_kinds import POLICIES, POLICY_BINDINGS
from nodemanager.server.verbs import stored
from nodemanager.store.base import StoreRecord


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """A ValidatingAdmissionPolicyBinding, compiled."""

    name: str
    policy: str
    constraints: Constraints | None
    actions: frozenset[str]
    param_ref: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class _Hook:
    policy: AdmissionPolicy
    bindings: tuple[PolicyBinding, ...]


@dataclass(slots=True)
class _Verdict:
    """What the policies have said so far; the client gets the first denial."""

    denials: list[tuple[str, Refusal]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def deny(self, policy: AdmissionPolicy, binding: PolicyBinding | None, refusal: Refusal) -> None:
        by = f" with binding '{binding.name}'" if binding else ""
        text = f"ValidatingAdmissionPolicy '{policy.name}'{by} denied request: {refusal.message}"
        self.denials.append((text, refusal))

    def misconfigured(self, policy: AdmissionPolicy, binding: PolicyBinding | None, why: str) -> None:
        if policy.fails:
            what = "binding" if binding else "policy"
            self.deny(policy, binding, Refusal(f"failed to configure {what}: {why}"))

    def act(self, policy: AdmissionPolicy, binding: PolicyBinding, refusal: Refusal) -> None:
        if "Deny" in binding.actions:
            self.deny(policy, binding, refusal)
        if "Warn" in binding.actions:
            by = f"'{policy.name}' with binding '{binding.name}'"
            self.warnings.append(f"Validation failed for ValidatingAdmissionPolicy {by}: {refusal.message}")


class Policies:
    """The policies of the store, applied to changes."""

    def __init__(self, hub: Hub, authorizer: Authorizer) -> None:
        self._hub = hub
        self._authorizer = authorizer
        self._looked_at = -1
        self._seen: list[tuple[str, int]] = []
        self._hooks: tuple[_Hook, ...] = ()
        self._compiled: dict[tuple[str, int], AdmissionPolicy] = {}

    def validate(self, change: AdmissionRequest) -> tuple[str, ...]:
        """Return the warnings of policies; raise the first denial."""
        self._follow()
        if not self._hooks or (change.kind.group, change.kind.plural) in EXEMPT:
            return ()
        request, verdict, budget = PolicyRequest(self._hub, change), _Verdict(), Budget()
        for hook in self._hooks:
            self._ask(hook, request, budget, verdict)
        if verdict.denials:
            raise _denied(change, request.target, *verdict.denials[0])
        return tuple(dict.fromkeys(verdict.warnings))

    def _follow(self) -> None:
        """Read policies and bindings again if one of them changed since we last looked."""
        store = self._hub.store
        if store.revision == self._looked_at:
            return
        self._looked_at = store.revision
        policies = store.list(POLICIES.prefix()).records
        bindings = store.list(POLICY_BINDINGS.prefix()).records
        seen = [(record.key, record.revision) for record in (*policies, *bindings)]
        if seen != self._seen:
            self._seen = seen
            self._compiled = {_key(record): self._compile(record) for record in policies}
            self._hooks = _hooks(list(self._compiled.values()), bindings)

    def _compile(self, record: StoreRecord) -> AdmissionPolicy:
        known = self._compiled.get(_key(record))
        return known or admission_policies.compile_policy(stored.load(POLICIES, record))

    def _ask(self, hook: _Hook, request: PolicyRequest, budget: Budget, verdict: _Verdict) -> None:
        policy = hook.policy
        matched = policy.constraints.match(request.target, request.labels, request.equivalents)
        if matched is None:
            return
        kind = policy_params.find_kind(self._hub, policy.param_kind) if policy.param_kind else None
        if kind is None and policy.param_kind:
            group, _, version = policy.param_kind[0].rpartition("/")
            gvk = f"{group}/{version}, Kind={policy.param_kind[1]}"
            why = f"failed to find resource referenced by paramKind: '{gvk}'"
            verdict.misconfigured(policy, None, why)
            return
        for binding in hook.bindings:
            limits = binding.constraints
            if limits and limits.match(request.target, request.labels, request.equivalents) is None:
                continue
            try:
                params = policy_params.collect(self._hub, kind, binding.param_ref, request.target.namespace)
            except ParamError as why:
                verdict.misconfigured(policy, binding, str(why))
                continue
            for param in params:
                outcome = policy.evaluate(self._inputs(request, matched, param), budget)
                for refusal in outcome.refusals:
                    verdict.act(policy, binding, refusal)
                for denial in outcome.denials:
                    verdict.deny(policy, binding, denial)

    def _inputs(self, request: PolicyRequest, matched: AdmissionTarget, param: Untyped | None) -> Inputs:
        target = request.target
        about = Attributes(
            "", target.group, "*", target.resource, target.subresource, target.namespace, target.name
        )
        authorizer = AuthorizerValue(request.change.user, self._authorizer.decide, about)
        new, old = request.objects(matched)
        return Inputs(request.request(matched), new, old, request.namespace_object, param, authorizer)


def _key(record: StoreRecord) -> tuple[str, int]:
    return record.key, record.revision


def _hooks(policies: list[AdmissionPolicy], records: list[StoreRecord]) -> tuple[_Hook, ...]:
    """Return the policies that somebody bound, in the order of their names."""
    bound: dict[str, list[PolicyBinding]] = {}
    for record in records:
        binding = _binding(stored.load(POLICY_BINDINGS, record))
        bound.setdefault(binding.policy, []).append(binding)
    return tuple(_Hook(policy, tuple(bound[policy.name])) for policy in policies if policy.name in bound)


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


def _denied(change: AdmissionRequest, target: AdmissionTarget, text: str, refusal: Refusal) -> StatusError:
    forbidden = refusals.forbidden(change.kind, target.name or "Unknown", text, [Cause(message=text)])
    return refusal.error(forbidden.message, details=forbidden.details)
