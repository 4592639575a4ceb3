"""Enforces ValidatingAdmissionPolicies.

    followed policies -> match -> params -> evaluate -> deny with a Status, warn in a header, or nothing

There is no audit log here, so the action Audit and audit annotations leave no trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nodemanager.kube.admission import policies as admission_policies
from nodemanager.kube.admission.constraints import AdmissionTarget
from nodemanager.kube.admission.expressions import Budget
from nodemanager.kube.admission.policies import AdmissionPolicy, Refusal
from nodemanager.kube.errors import Cause, StatusError
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.admission.followed import FollowedPolicies, Hook, PolicyBinding
from nodemanager.server.admission.policy import params as policy_params
from nodemanager.server.admission.policy.params import ParamError
from nodemanager.server.admission.policy.requests import PolicyRequest
from nodemanager.server.http import refusals
from nodemanager.server.hub import AdmissionRequest, Hub
from nodemanager.server.kinds.builtin_kinds import POLICIES, POLICY_BINDINGS


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
        self._policies = FollowedPolicies(hub, POLICIES, POLICY_BINDINGS, admission_policies.compile_policy)

    def validate(self, change: AdmissionRequest) -> tuple[str, ...]:
        """Return the warnings of policies; raise the first denial."""
        hooks = self._policies.about(change)
        if not hooks:
            return ()
        request, verdict, budget = PolicyRequest(self._hub, change), _Verdict(), Budget()
        for hook in hooks:
            self._ask(hook, request, budget, verdict)
        if verdict.denials:
            raise _denied(change, request.target, *verdict.denials[0])
        return tuple(dict.fromkeys(verdict.warnings))

    def _ask(
        self, hook: Hook[AdmissionPolicy], request: PolicyRequest, budget: Budget, verdict: _Verdict
    ) -> None:
        policy = hook.policy
        matched = hook.match(request)
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
            if not binding.is_about(request):
                continue
            try:
                params = policy_params.collect(self._hub, kind, binding.param_ref, request.target.namespace)
            except ParamError as why:
                verdict.misconfigured(policy, binding, str(why))
                continue
            for param in params:
                outcome = policy.evaluate(request.inputs(matched, self._authorizer, param), budget)
                for refusal in outcome.refusals:
                    verdict.act(policy, binding, refusal)
                for denial in outcome.denials:
                    verdict.deny(policy, binding, denial)


def _denied(change: AdmissionRequest, target: AdmissionTarget, text: str, refusal: Refusal) -> StatusError:
    forbidden = refusals.forbidden(change.kind, target.name or "Unknown", text, [Cause(message=text)])
    return refusal.error(forbidden.message, details=forbidden.details)
