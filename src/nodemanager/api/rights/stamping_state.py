"""Whether users are stamped in a cluster: what its objects say, in words for a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nodemanager.api.rights import stamp_policy

CONDITION: Final = "UsersStamped"
"""The type of the condition."""
STAMPED: Final = "Stamped"
NOT_SERVED: Final = "NotServed"
NOT_INSTALLED: Final = "NotInstalled"
NOT_BOUND: Final = "NotBound"
CHANGED: Final = "Changed"
_INSTALL: Final = "install it with: nodemanager crds --install"
_UNTIL_THEN: Final = "until then changes are recorded with the field manager, which everybody chooses freely"
_OF_BINDING: Final = frozenset({"policyName"})


class StampingState(NamedTuple):
    """Whether the policy that stamps users is in force, and why not."""

    in_force: bool
    reason: str
    message: str


def judge(
    policy: Mapping[str, Any] | None, binding: Mapping[str, Any] | None, *, served: bool
) -> StampingState:
    """Return whether users are stamped, from the policy and its binding as the API has them.

    `served` is whether the API knows MutatingAdmissionPolicies at all: a NotFound for the kind says no.
    """
    name = stamp_policy.STAMPING
    ours, our_binding = stamp_policy.stamping()
    if not served:
        return _not(
            NOT_SERVED,
            "this API server has no MutatingAdmissionPolicies: Kubernetes has them from 1.36 on",
        )
    if policy is None:
        return _not(NOT_INSTALLED, f"the MutatingAdmissionPolicy {name} is missing: {_INSTALL}")
    if binding is None:
        return _not(NOT_BOUND, f"the MutatingAdmissionPolicyBinding {name} is missing: {_INSTALL}")
    if not _has(policy.get("spec"), ours["spec"]):
        return _not(CHANGED, f"the MutatingAdmissionPolicy {name} is not as we have it: {_INSTALL}")
    spec = binding.get("spec") or {}
    if {key for key, value in spec.items() if value} != _OF_BINDING or not _has(spec, our_binding["spec"]):
        return _not(
            CHANGED,
            f"the MutatingAdmissionPolicyBinding {name} is not as we have it: delete it, then {_INSTALL}",
        )
    return StampingState(True, STAMPED, "users are stamped onto what they ask for")


def _not(reason: str, why: str) -> StampingState:
    return StampingState(False, reason, f"{why}; {_UNTIL_THEN}")


def _has(found: Any, wanted: Any) -> bool:
    """Tell whether all that is wanted is there; the server adds defaults of its own."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(_has(found.get(key), wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return False
        return all(_has(mine, theirs) for mine, theirs in zip(found, wanted, strict=True))
    return bool(found == wanted)
