"""Carries out MutatingAdmissionPolicies: they change annotations of what is written, before it is judged.

Policies follow each other by name, each seeing what those before it made of the object. One that asks for it
(reinvocationPolicy IfNeeded) is asked once more if a later one changed something.
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.kube.admission import mutations
from nodemanager.kube.admission.expressions import Budget
from nodemanager.kube.admission.mutations import MutatingPolicy, MutationFailed
from nodemanager.kube.errors import Cause, Invalid
from nodemanager.kube.objects import Untyped
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.admission.followed import FollowedPolicies, Hook
from nodemanager.server.admission.policy.requests import PolicyRequest
from nodemanager.server.http import refusals
from nodemanager.server.hub import AdmissionRequest, Hub
from nodemanager.server.kinds.builtin_kinds import MUTATING_BINDINGS, MUTATING_POLICIES


class Mutations:
    """The mutating policies of the store, applied to changes."""

    def __init__(self, hub: Hub, authorizer: Authorizer) -> None:
        self._hub = hub
        self._authorizer = authorizer
        self._policies = FollowedPolicies(hub, MUTATING_POLICIES, MUTATING_BINDINGS, mutations.compile_policy)

    def mutate(self, change: AdmissionRequest) -> Untyped | None:
        """Return the object as the policies have it; raise Invalid where one of them cannot say."""
        request, budget = PolicyRequest(self._hub, change), Budget()
        meant = [hook for hook in self._policies.about(change) if hook.match(request) is not None]
        if change.new is None or not meant:
            return change.new
        last = -1
        for index, hook in enumerate(meant):
            asked = self._ask(hook, request, budget)
            if asked is not request:
                request, last = asked, index
        for hook in meant[: max(last, 0)]:
            if hook.policy.again:
                request = self._ask(hook, request, budget)
        return request.change.new

    def _ask(self, hook: Hook[MutatingPolicy], request: PolicyRequest, budget: Budget) -> PolicyRequest:
        """Return the request with what a policy writes, the same one if that is nothing."""
        for binding in hook.bindings:
            matched, new = hook.match(request), request.change.new
            if matched is None or new is None or not binding.is_about(request):
                continue
            try:
                found = hook.policy.annotate(request.inputs(matched, self._authorizer), budget)
            except MutationFailed as why:
                raise _failed(request, hook.policy.name, binding.name, str(why)) from why
            if found != mutations.annotations_of(new):
                request = PolicyRequest(self._hub, replace(request.change, new=_annotated(new, found)))
        return request


def _annotated(obj: Untyped, annotations: mutations.Annotations | None) -> Untyped:
    meta = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    if annotations is not None:
        meta["annotations"] = annotations
    return {**obj, "metadata": meta}


def _failed(request: PolicyRequest, policy: str, binding: str, why: str) -> Invalid:
    text = f"policy '{policy}' with binding '{binding}' denied request: {why}"
    forbidden = refusals.forbidden(request.change.kind, request.target.name, text, [Cause(message=text)])
    return Invalid(text, details=forbidden.details)
