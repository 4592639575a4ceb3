"""What is wrong with an admission policy or a binding, found when it is written, in Kubernetes' words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nodemanager.kube import object_names
from nodemanager.kube.admission.expressions import (
    ANY,
    ONLY_BOOL,
    ONLY_STRING,
    STRING_OR_NULL,
    Environment,
    Expression,
)
from nodemanager.kube.cel.parser import RESERVED
from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Untyped
from nodemanager.server.admission.policy import match_faults
from nodemanager.server.http.refusals import (
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_required,
    value_unsupported,
)
from nodemanager.server.verbs import metadata

Spec = Mapping[str, Any]
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_CONDITIONS = 64
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION = 5 * 1024
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = RESERVED | {"true", "false", "null", "in"}
_EMPTY = "validations or auditAnnotations must contain at least one item"


def fill_in_policy(obj: Untyped) -> None:
    """Fill in the defaults of a policy."""
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("failurePolicy", "Fail")
        match_faults.prepare(spec.get("matchConstraints"))


def fill_in_binding(obj: Untyped) -> None:
    """Fill in the defaults of a binding."""
    spec = obj.get("spec")
    if isinstance(spec, dict):
        match_faults.prepare(spec.get("matchResources"))


def policy_faults(obj: Untyped, old: Untyped | None) -> list[Cause]:
    """Return what is wrong with a ValidatingAdmissionPolicy; what was taken once is taken again."""
    if old is not None and obj.get("spec") == old.get("spec"):
        return []
    return list(_policy(str(obj["metadata"].get("name", "")), obj.get("spec") or {}))


def _policy(name: str, spec: Spec) -> Iterator[Cause]:
    yield from failure_faults(spec)
    kind = spec.get("paramKind")
    if kind is not None:
        yield from _param_kind("spec.paramKind", kind)
    yield from constraint_faults(spec)
    variables = spec.get("variables") or []
    env = Environment(has_params=kind is not None, composed=bool(variables))
    yield from condition_faults(spec.get("matchConditions") or [], env)
    for index, variable in enumerate(variables):
        yield from variable_faults(f"spec.variables[{index}]", variable, env)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        yield value_required("spec.validations", _EMPTY)
        yield value_required("spec.auditAnnotations", _EMPTY)
    for index, validation in enumerate(validations):
        yield from _validation(f"spec.validations[{index}]", validation, env)
    yield from _annotations(name, annotations, env)


def failure_faults(spec: Spec) -> Iterator[Cause]:
    """Yield what is wrong with the failurePolicy of a policy."""
    failure = spec.get("failurePolicy")
    if not failure:
        yield value_required("spec.failurePolicy")
    elif failure not in ("Fail", "Ignore"):
        yield value_unsupported("spec.failurePolicy", failure, ("Fail", "Ignore"))


def constraint_faults(spec: Spec) -> Iterator[Cause]:
    """Yield what is wrong with the matchConstraints of a policy."""
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield value_required("spec.matchConstraints")
        return
    yield from match_faults.faults("spec.matchConstraints", constraints)
    if not constraints.get("resourceRules"):
        yield value_required("spec.matchConstraints.resourceRules")


def _param_kind(path: str, kind: Spec) -> Iterator[Cause]:
    api_version, name = str(kind.get("apiVersion") or ""), str(kind.get("kind") or "")
    group, _, version = api_version.rpartition("/")
    if not api_version:
        yield value_required(f"{path}.apiVersion")
    elif api_version.count("/") > 1:
        why = f"unexpected GroupVersion string: {api_version}"
        yield value_invalid(f"{path}.apiVersion", api_version, why)
    else:
        if group and (found := metadata.name_faults(group, "subdomain")):
            yield value_invalid(f"{path}.apiVersion", group, ",".join(found))
        if not version:
            yield value_invalid(f"{path}.apiVersion", api_version, "version must be specified")
        elif wrong := _dns_label(version):
            yield value_invalid(f"{path}.apiVersion", version, wrong)
    if not name:
        yield value_required(f"{path}.kind")
    elif wrong := _dns_label(name.lower()):
        why = f"may have mixed case, but should otherwise match: {wrong}"
        yield value_invalid(f"{path}.kind", name, why)


def _dns_label(text: str) -> str:
    if len(text) > 63:
        return "must be no more than 63 bytes"
    return "" if re.fullmatch(object_names.LABEL_1035, text) else object_names.LABEL_1035_WORDS


def condition_faults(conditions: list[Spec], env: Environment) -> Iterator[Cause]:
    """Yield what is wrong with the matchConditions of a policy."""
    if len(conditions) > _MAX_CONDITIONS:
        text = f"Too many: {len(conditions)}: must have at most {_MAX_CONDITIONS} items"
        yield Cause(field="spec.matchConditions", reason="FieldValueTooMany", message=text)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        path, name = f"spec.matchConditions[{index}]", str(condition.get("name") or "")
        source = str(condition.get("expression") or "").strip()
        if not source:
            yield value_required(f"{path}.expression")
        else:
            compiled = env.compile(source, ONLY_BOOL, composed=False)
            yield from compile_faults(f"{path}.expression", source, compiled)
        if not name:
            yield value_required(f"{path}.name")
            continue
        for why in metadata.key_faults(name):
            yield value_invalid(f"{path}.name", name, why)
        if name in names:
            yield value_duplicate(f"{path}.name", name)
        names.add(name)


def variable_faults(path: str, variable: Spec, env: Environment) -> Iterator[Cause]:
    """Yield what is wrong with a variable, and make it known to the expressions after it."""
    name, source = str(variable.get("name") or ""), str(variable.get("expression") or "")
    if not name.strip():
        yield value_required(f"{path}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        yield value_invalid(f"{path}.name", name, "must be a valid CEL identifier")
    if not source.strip():
        yield value_required(f"{path}.expression", "expression is not specified")
        return
    compiled = env.compile(source, ANY)
    env.add(name, compiled)
    yield from compile_faults(f"{path}.expression", source, compiled)


def _validation(path: str, validation: Spec, env: Environment) -> Iterator[Cause]:
    source, message = str(validation.get("expression") or ""), str(validation.get("message") or "")
    expression, reason = str(validation.get("messageExpression") or ""), validation.get("reason")
    if not source.strip():
        yield value_required(f"{path}.expression", "expression is not specified")
    else:
        yield from compile_faults(f"{path}.expression", source, env.compile(source, ONLY_BOOL))
    if expression and not expression.strip():
        yield value_invalid(f"{path}.messageExpression", expression, "must be non-empty if specified")
    elif expression:
        compiled = env.compile(expression, ONLY_STRING, authorizer=False)
        yield from compile_faults(f"{path}.messageExpression", expression, compiled)
    if message and not message.strip():
        yield value_invalid(f"{path}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield value_invalid(f"{path}.message", message, "must not contain line breaks")
    if reason is not None and reason not in _REASONS:
        yield value_unsupported(f"{path}.reason", reason, _REASONS)


def _annotations(policy: str, annotations: list[Spec], env: Environment) -> Iterator[Cause]:
    if len(annotations) > _MAX_ANNOTATIONS:
        why = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield value_invalid("spec.auditAnnotations", annotations, why)
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", str(annotation.get("key") or "")
        full = f"{policy}/{key}"
        for why in metadata.key_faults(full):
            yield value_invalid(f"{path}.key", full, why)
        source = str(annotation.get("valueExpression") or "")
        if not source.strip():
            yield value_required(f"{path}.valueExpression", "valueExpression is not specified")
        elif len(source.strip().encode()) > _MAX_ANNOTATION:
            why = f"must not exceed {_MAX_ANNOTATION} bytes in length"
            yield value_required(f"{path}.valueExpression", why)
        else:
            compiled = env.compile(source.strip(), STRING_OR_NULL)
            yield from compile_faults(f"{path}.valueExpression", source, compiled)
        if key in keys:
            yield value_duplicate(f"{path}.key", key)
        keys.add(key)


def compile_faults(path: str, source: str, expression: Expression) -> Iterator[Cause]:
    """Yield why an expression could not be compiled."""
    if expression.error:
        yield value_invalid(path, source, expression.error)


def binding_faults(obj: Untyped, _old: Untyped | None) -> list[Cause]:
    """Return what is wrong with a ValidatingAdmissionPolicyBinding."""
    return list(_binding(obj.get("spec") or {}))


def _binding(spec: Spec) -> Iterator[Cause]:
    yield from bound_policy_faults(spec)
    if spec.get("paramRef") is not None:
        yield from _param_ref("spec.paramRef", spec["paramRef"])
    if spec.get("matchResources") is not None:
        yield from match_faults.faults("spec.matchResources", spec["matchResources"])
    yield from _actions("spec.validationActions", spec.get("validationActions") or [])


def bound_policy_faults(spec: Spec) -> Iterator[Cause]:
    """Yield what is wrong with the name of the policy that a binding binds."""
    policy = str(spec.get("policyName") or "")
    if not policy:
        yield value_required("spec.policyName")
        return
    for why in metadata.name_faults(policy, "subdomain"):
        yield value_invalid("spec.policyName", policy, why)


def _param_ref(path: str, ref: Spec) -> Iterator[Cause]:
    name, selector = str(ref.get("name") or ""), ref.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        for why in metadata.name_faults(name, "path"):
            yield value_invalid(f"{path}.name", name, why)
        if selector is not None:
            yield value_forbidden(f"{path}.name", exclusive)
    if selector is not None:
        yield from match_faults.selector(f"{path}.selector", selector)
        if name:
            yield value_forbidden(f"{path}.selector", exclusive)
    if not name and selector is None:
        yield value_required(path, "one of name or selector must be specified")
    action = ref.get("parameterNotFoundAction")
    if not action:
        yield value_required(f"{path}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        yield value_unsupported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _actions(path: str, actions: list[str]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield value_unsupported(f"{path}[{index}]", action, _ACTIONS)
        if action in seen:
            yield value_duplicate(f"{path}[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        yield value_invalid(path, actions, why)
    if not seen:
        yield value_required(path, "at least one validation action is required")
