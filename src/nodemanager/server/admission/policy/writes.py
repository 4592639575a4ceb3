"""Limits the authors of policies with parameters to users who can read the parameters themselves.

Otherwise a policy would be a way to read any object, one refusal at a time.
"""

from __future__ import annotations

from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Untyped
from nodemanager.kube.rbac.identity import MASTERS, Attributes
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.admission.policy import faults, params
from nodemanager.server.http import refusals
from nodemanager.server.hub import AdmissionRequest, Hub
from nodemanager.server.kinds.builtin_kinds import POLICIES, POLICY_BINDINGS
from nodemanager.server.verbs import stored


class PolicyWrites:
    """Reviews policies and bindings for the parameters they refer to."""

    def __init__(self, hub: Hub, authorizer: Authorizer) -> None:
        self._hub = hub
        self._authorizer = authorizer

    async def review(self, change: AdmissionRequest) -> None:
        """Raise Invalid if a user refers to parameters that they cannot read."""
        if change.new is None or MASTERS in change.user.groups:
            return
        cause: Cause | None = None
        if change.kind is POLICIES:
            cause = self._policy(change, change.new, change.old)
        elif change.kind is POLICY_BINDINGS:
            cause = self._binding(change, change.new, change.old)
        if cause is not None:
            raise refusals.invalid(change.kind, change.name, [cause])

    def _policy(self, change: AdmissionRequest, new: Untyped, old: Untyped | None) -> Cause | None:
        kind = (new.get("spec") or {}).get("paramKind")
        before = ((old or {}).get("spec") or {}).get("paramKind")
        if kind is None or kind == before or faults.policy_faults(new, old):
            return None  # nothing new can be read, or the object is refused later for a better reason
        asked = self._attributes("get", new, name="*", namespace="*")
        if self._authorizer.decide(change.user, asked).allowed:
            return None
        why = (
            f'user {change.user.name} must have "get" permission on all objects of the referenced paramKind '
            f"(kind={kind.get('kind', '')}, apiVersion={kind.get('apiVersion', '')})"
        )
        return refusals.value_forbidden("spec.paramKind", why)

    def _binding(self, change: AdmissionRequest, new: Untyped, old: Untyped | None) -> Cause | None:
        spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
        ref = spec.get("paramRef")
        unchanged = ref == before.get("paramRef") and spec.get("policyName") == before.get("policyName")
        if ref is None or unchanged or faults.binding_faults(new, old):
            return None
        verb = "get" if ref.get("name") else "list"
        record = self._hub.store.get(POLICIES.key("", str(spec.get("policyName", ""))))
        policy = stored.load(POLICIES, record) if record is not None else None
        asked = self._attributes(
            verb, policy, name=str(ref.get("name") or ""), namespace=str(ref.get("namespace") or "")
        )
        if self._authorizer.decide(change.user, asked).allowed:
            return None
        who, everything = change.user.name, "permission for all groups, versions and resources"
        why = f'user {who} does not have "{verb}" permission on the object referenced by paramRef'
        if policy is None:
            why = (
                f"unable to get policy {spec.get('policyName', '')} to determine minimum required "
                f'permissions and user {who} does not have "{verb}" {everything}'
            )
        return refusals.value_forbidden("spec.paramRef", why)

    def _attributes(self, verb: str, policy: Untyped | None, *, name: str, namespace: str) -> Attributes:
        """Return what must be allowed: reading the kind of the parameters, or everything if unknown."""
        group = version = resource = "*"
        kind = ((policy or {}).get("spec") or {}).get("paramKind")
        if kind:
            group, _, version = str(kind.get("apiVersion", "")).rpartition("/")
            served = params.find_kind(self._hub, (str(kind["apiVersion"]), str(kind["kind"])))
            resource = served.plural if served else "*"
        return Attributes(verb, group, version, resource, namespace=namespace, name=name)
