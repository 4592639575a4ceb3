"""A mutating admission policy, compiled: given a request and its object, which annotations does it write?

    matchConstraints -> matchConditions -> mutations (JSON patches) -> annotations

Kubernetes lets such a policy change anything, in two ways. Here is what our own policy needs: JSON patches
of `metadata.annotations`. So no policy can make an object that does not fit its schema. All of it is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nodemanager.kube import errors
from nodemanager.kube.admission import policies
from nodemanager.kube.admission.constraints import Constraints, read_constraints
from nodemanager.kube.admission.expressions import (
    ONLY_PATCHES,
    Evaluation,
    EvaluationBudget,
    Expression,
    PolicyOutOfBudget,
)
from nodemanager.kube.admission.policies import PolicyInputs
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.objects import Untyped
from nodemanager.kube.patching.json_patch import apply_json_patch

PATCH_TYPE: Final = "JSONPatch"
"""The patchType that there is here."""
AGAIN: Final = "IfNeeded"
"""The reinvocationPolicy of a policy that is asked again when one after it changed something."""
_OPERATIONS: Final = ("add", "remove", "replace")
_ROOT: Final = "/metadata/annotations"

Annotations = dict[str, str]


class MutationFailed(Exception):
    """A policy could not say what it changes, and has the request refused then (failurePolicy)."""


@dataclass(frozen=True, slots=True)
class MutatingPolicy:
    """A MutatingAdmissionPolicy, ready to be asked."""

    name: str
    constraints: Constraints
    fails: bool = True
    """Whether an error refuses the request (failurePolicy)."""
    again: bool = False
    """Whether it is asked once more when a later policy changed the object."""
    conditions: tuple[Expression, ...] = ()
    variables: Mapping[str, Expression] = field(default_factory=dict)
    mutations: tuple[Expression, ...] = ()

    def annotate(self, inputs: PolicyInputs, budget: EvaluationBudget) -> Annotations | None:
        """Return the annotations that the object gets, None if it has none."""
        found = annotations_of(inputs.new)
        try:
            if not policies.applies(self.conditions, inputs):
                return found
            evaluation = Evaluation(inputs.values(), self.variables, budget)
            for mutation in self.mutations:
                found = _patched(found, evaluation.run(mutation))
        except (CelError, PolicyOutOfBudget) as why:
            if self.fails:
                raise MutationFailed(str(why)) from why
            return annotations_of(inputs.new)
        return found


def annotations_of(obj: Untyped | None) -> Annotations | None:
    """Return the annotations of an object, if it has any."""
    return None if obj is None else obj["metadata"].get("annotations")


def _patched(annotations: Annotations | None, operations: Any) -> Annotations | None:
    for one in operations:
        name, path = one.get("op"), str(one.get("path", ""))
        if name not in _OPERATIONS:
            raise CelError(
                f"cannot do the operation {name!r} of a JSONPatch: this API knows {', '.join(_OPERATIONS)}"
            )
        if path != _ROOT and not path.startswith(f"{_ROOT}/"):
            raise CelError(f"cannot patch {path or 'the object'}: policies of this API change {_ROOT} only")
    document = {"metadata": {} if annotations is None else {"annotations": annotations}}
    try:
        found = apply_json_patch(document, list(operations))["metadata"].get("annotations")
    except errors.StatusError as error:
        raise CelError(f"JSON Patch: {error}") from error
    if found is None:
        return None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise CelError("JSON Patch: annotations must be texts")
    return dict(found)


def compile_policy(obj: Untyped) -> MutatingPolicy:
    """Return a stored policy in its compiled form; what cannot be compiled fails when it is evaluated."""
    spec: Mapping[str, Any] = obj.get("spec") or {}
    env, variables = policies.environment(spec)
    return MutatingPolicy(
        name=str(obj["metadata"]["name"]),
        constraints=read_constraints(spec.get("matchConstraints")),
        fails=spec.get("failurePolicy") != "Ignore",
        again=spec.get("reinvocationPolicy") == AGAIN,
        conditions=policies.conditions(spec, env),
        variables=variables,
        mutations=tuple(
            env.compile(str((each.get("jsonPatch") or {}).get("expression", "")), ONLY_PATCHES)
            for each in spec.get("mutations") or ()
        ),
    )
