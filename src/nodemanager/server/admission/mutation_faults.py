"""What is wrong with a mutating policy or its binding, found when it is written.

In Kubernetes' words. What Kubernetes has and this API has not is refused by name: parameters, and patches of
the type ApplyConfiguration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nodemanager.kube.admission.expressions import ONLY_PATCHES, Environment
from nodemanager.kube.admission.mutations import AGAIN, PATCH_TYPE
from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Untyped
from nodemanager.server.admission.policy import faults as common
from nodemanager.server.admission.policy import match_faults
from nodemanager.server.http.refusals import (
    value_forbidden,
    value_invalid,
    value_required,
    value_unsupported,
)

Spec = Mapping[str, Any]
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_REINVOCATIONS: Final = (AGAIN, "Never")
_NO_PARAMETERS: Final = "this API has no parameters for mutating policies"


def policy_faults(obj: Untyped, old: Untyped | None) -> list[Cause]:
    """Return what is wrong with a MutatingAdmissionPolicy; what was taken once is taken again."""
    if old is not None and obj.get("spec") == old.get("spec"):
        return []
    return list(_policy(obj.get("spec") or {}))


def _policy(spec: Spec) -> Iterator[Cause]:
    yield from common.failure_faults(spec)
    if spec.get("paramKind") is not None:
        yield value_forbidden("spec.paramKind", _NO_PARAMETERS)
    yield from common.constraint_faults(spec)
    yield from _operations("matchConstraints", spec)
    variables, mutations = spec.get("variables") or [], spec.get("mutations") or []
    env = Environment(has_params=False, composed=bool(variables))
    yield from common.condition_faults(spec.get("matchConditions") or [], env)
    for index, variable in enumerate(variables):
        yield from common.variable_faults(f"spec.variables[{index}]", variable, env)
    if not mutations:
        yield value_required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _mutation(f"spec.mutations[{index}]", mutation, env)
    again = spec.get("reinvocationPolicy")
    if not again:
        yield value_required("spec.reinvocationPolicy")
    elif again not in _REINVOCATIONS:
        yield value_unsupported("spec.reinvocationPolicy", again, _REINVOCATIONS)


def _operations(field: str, spec: Spec) -> Iterator[Cause]:
    """Nothing is left to change of what is deleted."""
    for rule in (spec.get(field) or {}).get("resourceRules") or []:
        for operation in rule.get("operations") or []:
            if operation not in _OPERATIONS:
                path = f"spec.{field}.resourceRules.operations"
                yield value_unsupported(path, operation, _OPERATIONS)


def _mutation(path: str, mutation: Spec, env: Environment) -> Iterator[Cause]:
    kind, patch = mutation.get("patchType"), mutation.get("jsonPatch")
    if not kind:
        yield value_required(f"{path}.patchType")
        return
    if kind != PATCH_TYPE:
        yield value_unsupported(f"{path}.patchType", kind, (PATCH_TYPE,))
        return
    if mutation.get("applyConfiguration") is not None:
        why = "must not be specified when patchType is JSONPatch"
        yield value_invalid(f"{path}.applyConfiguration", "{applyConfiguration}", why)
    if patch is None:
        yield value_required(f"{path}.jsonPatch", "must be specified when patchType is JSONPatch")
        return
    source = str(patch.get("expression") or "").strip()
    if not source:
        yield value_required(f"{path}.jsonPatch.expression")
        return
    yield from common.compile_faults(
        f"{path}.jsonPatch.expression", source, env.compile(source, ONLY_PATCHES)
    )


def binding_faults(obj: Untyped, _old: Untyped | None) -> list[Cause]:
    """Return what is wrong with a MutatingAdmissionPolicyBinding."""
    return list(_binding(obj.get("spec") or {}))


def _binding(spec: Spec) -> Iterator[Cause]:
    yield from common.bound_policy_faults(spec)
    if spec.get("paramRef") is not None:
        yield value_forbidden("spec.paramRef", _NO_PARAMETERS)
    if spec.get("matchResources") is not None:
        yield from match_faults.faults("spec.matchResources", spec["matchResources"])
        yield from _operations("matchResources", spec)
