"""An admission policy with its binding, as plain objects: what all of ours have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

GROUP: Final = "admissionregistration.k8s.io"
ALL: Final = ("CREATE", "UPDATE", "DELETE")

Object = dict[str, Any]


def matched(group: str, resources: Sequence[str], operations: Sequence[str] = ALL) -> Object:
    """Return which requests a policy looks at."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


def validation(expression: str, message: str, spoken: str = "") -> Object:
    """Return what must hold, and what is said if not; `spoken` is an expression that says it better."""
    words = {"message": message, **({"messageExpression": spoken} if spoken else {})}
    return {"expression": expression, **words, "reason": "Forbidden"}


def policy(
    name: str,
    rules: Iterable[Object],
    validations: Iterable[Object],
    *,
    conditions: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> list[Object]:
    """Return a policy that refuses what it cannot judge, and its binding."""
    spec = _spec(rules, conditions or {}, variables or {})
    spec["validations"] = list(validations)
    return _bound("ValidatingAdmissionPolicy", name, spec, {"validationActions": ["Deny"]})


def mutating_policy(
    name: str, rules: Iterable[Object], expression: str, variables: Mapping[str, str]
) -> list[Object]:
    """Return a policy that changes objects by a JSON patch, and its binding; what it cannot do is refused.

    It runs again when a foreign policy changed the object after it.
    """
    spec = _spec(rules, {}, variables)
    spec["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]
    spec["reinvocationPolicy"] = "IfNeeded"
    return _bound("MutatingAdmissionPolicy", name, spec, {})


def _spec(rules: Iterable[Object], conditions: Mapping[str, str], variables: Mapping[str, str]) -> Object:
    spec: Object = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": list(rules)}}
    for field, named in (("matchConditions", conditions), ("variables", variables)):
        if named:
            spec[field] = [{"name": one, "expression": text} for one, text in named.items()]
    return spec


def _bound(kind: str, name: str, spec: Object, binding: Object) -> list[Object]:
    parts = ((kind, spec), (f"{kind}Binding", {"policyName": name, **binding}))
    return [
        {"apiVersion": f"{GROUP}/v1", "kind": each, "metadata": {"name": name}, "spec": said}
        for each, said in parts
    ]
