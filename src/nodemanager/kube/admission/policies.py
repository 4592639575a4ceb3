"""An admission policy, compiled: given a request and its objects, what does it refuse?

    matchConstraints -> matchConditions -> validations -> message, reason
                                        -> auditAnnotations (evaluated for their errors)

Everything here is pure: the caller gives namespace, parameters and a function that authorises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nodemanager.kube.admission.constraints import Constraints, read_constraints
from nodemanager.kube.admission.expressions import (
    ANY,
    CONDITIONS_BUDGET,
    ONLY_BOOL,
    ONLY_STRING,
    STRING_OR_NULL,
    Environment,
    Evaluation,
    EvaluationBudget,
    Expression,
    PolicyOutOfBudget,
)
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.errors import StatusError, error_class
from nodemanager.kube.objects import Untyped

MAX_MESSAGE = 5 * 1024
"""How many bytes the result of a messageExpression may have."""
INVALID = "Invalid"


class Refusal(NamedTuple):
    """One validation that did not hold, or could not be evaluated."""

    message: str
    reason: str = INVALID

    @property
    def error(self) -> type[StatusError]:
        """The error that carries this reason over the wire."""
        return error_class(422, self.reason)


class PolicyOutcome(NamedTuple):
    """What came of one policy with one parameter."""

    refusals: tuple[Refusal, ...] = ()
    """Subject to the actions of the binding."""
    denials: tuple[Refusal, ...] = ()
    """Denied by every binding, because an annotation cannot be computed."""


@dataclass(frozen=True, slots=True)
class PolicyValidation:
    """One expression that must hold, and what is said when it does not."""

    expression: Expression
    message: str = ""
    message_expression: Expression | None = None
    reason: str = INVALID


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """What the expressions see."""

    request: Untyped
    new: Untyped | None
    old: Untyped | None
    namespace: Untyped | None = None
    params: Untyped | None = None
    authorizer: Any = None

    def values(self, *, authorizer: bool = True) -> dict[str, Any]:
        """Return the names and values of an evaluation."""
        values = {
            "object": self.new, "oldObject": self.old, "request": self.request, "params": self.params,
            "namespaceObject": self.namespace,
        }  # fmt: skip
        return {**values, "authorizer": self.authorizer} if authorizer else values


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """A ValidatingAdmissionPolicy, ready to be asked."""

    name: str
    constraints: Constraints
    fails: bool = True
    """Whether an error refuses the request (failurePolicy)."""
    param_kind: tuple[str, str] | None = None
    """apiVersion and kind of the parameters."""
    conditions: tuple[Expression, ...] = ()
    variables: Mapping[str, Expression] = field(default_factory=dict)
    validations: tuple[PolicyValidation, ...] = ()
    annotations: tuple[Expression, ...] = ()

    def evaluate(self, inputs: PolicyInputs, budget: EvaluationBudget) -> PolicyOutcome:
        """Return what the policy refuses."""
        try:
            if not applies(self.conditions, inputs):
                return PolicyOutcome()
            refusals = self._validate(inputs, budget)
        except (CelError, PolicyOutOfBudget) as why:
            return PolicyOutcome(self._failed(str(why)))
        return PolicyOutcome(refusals, self._annotate(inputs, budget))

    def _failed(self, message: str) -> tuple[Refusal, ...]:
        return (Refusal(message),) if self.fails else ()

    def _validate(self, inputs: PolicyInputs, budget: EvaluationBudget) -> tuple[Refusal, ...]:
        evaluation = Evaluation(inputs.values(), self.variables, budget)
        messages = Evaluation(inputs.values(authorizer=False), self.variables, budget)
        refusals: list[Refusal] = []
        for validation in self.validations:
            try:
                holds = evaluation.run(validation.expression) is True
            except CelError as why:
                refusals.extend(self._failed(str(why)))
                continue
            if not holds:
                try:
                    refusals.append(Refusal(_message(validation, messages), validation.reason))
                except PolicyOutOfBudget as why:
                    refusals.extend(self._failed(f"failed messageExpression: {why}"))
        return tuple(refusals)

    def _annotate(self, inputs: PolicyInputs, budget: EvaluationBudget) -> tuple[Refusal, ...]:
        """Evaluate what an audit log would contain; there is none here, so only its errors matter."""
        evaluation = Evaluation(inputs.values(), self.variables, budget)
        problems: list[Refusal] = []
        for annotation in self.annotations:
            try:
                evaluation.run(annotation)
            except (CelError, PolicyOutOfBudget) as why:
                problems.extend(self._failed(str(why)))
        return tuple(problems)


def applies(conditions: Sequence[Expression], inputs: PolicyInputs) -> bool:
    """Evaluate the matchConditions of a policy; one that is false outweighs the errors of all others."""
    if not conditions:
        return True
    values = {**inputs.values(), "namespaceObject": None}
    evaluation = Evaluation(values, {}, EvaluationBudget(CONDITIONS_BUDGET))
    problems: list[str] = []
    for condition in conditions:
        try:
            if evaluation.run(condition) is False:
                return False
        except CelError as why:
            problems.append(str(why))
    if problems:
        texts = list(dict.fromkeys(problems))
        raise CelError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return True


def _message(validation: PolicyValidation, evaluation: Evaluation) -> str:
    text = ""
    if validation.message_expression is not None:
        try:
            found = evaluation.run(validation.message_expression)
        except CelError:
            found = ""  # then `message`, or the expression, is shown instead
        text = found.strip() if isinstance(found, str) else ""
        if "\n" in text or len(text.encode()) > MAX_MESSAGE:
            text = ""
    return text or validation.message.strip() or f"failed expression: {validation.expression.source.strip()}"


def compile_policy(obj: Untyped) -> AdmissionPolicy:
    """Return a stored policy in its compiled form; what cannot be compiled fails when it is evaluated."""
    spec: Mapping[str, Any] = obj.get("spec") or {}
    kind = spec.get("paramKind")
    env, variables = environment(spec)
    return AdmissionPolicy(
        name=str(obj["metadata"]["name"]),
        constraints=read_constraints(spec.get("matchConstraints")),
        fails=spec.get("failurePolicy") != "Ignore",
        param_kind=(str(kind.get("apiVersion", "")), str(kind.get("kind", ""))) if kind else None,
        conditions=conditions(spec, env),
        variables=variables,
        validations=tuple(_validation(each, env) for each in spec.get("validations") or ()),
        annotations=tuple(
            env.compile(str(each.get("valueExpression", "")).strip(), STRING_OR_NULL)
            for each in spec.get("auditAnnotations") or ()
        ),
    )


def environment(spec: Mapping[str, Any]) -> tuple[Environment, dict[str, Expression]]:
    """Return what the expressions of a policy can use, and its compiled variables in their order."""
    given: Sequence[Mapping[str, Any]] = spec.get("variables") or ()
    env = Environment(has_params=bool(spec.get("paramKind")), composed=bool(given))
    compiled: dict[str, Expression] = {}
    for each in given:
        name, source = str(each.get("name", "")), str(each.get("expression", ""))
        compiled[name] = env.compile(source, ANY)
        env.add(name, compiled[name])
    return env, compiled


def conditions(spec: Mapping[str, Any], env: Environment) -> tuple[Expression, ...]:
    """Return the compiled matchConditions of a policy."""
    return tuple(
        env.compile(str(each.get("expression", "")), ONLY_BOOL, composed=False)
        for each in spec.get("matchConditions") or ()
    )


def _validation(spec: Mapping[str, Any], env: Environment) -> PolicyValidation:
    text = str(spec.get("messageExpression") or "")
    return PolicyValidation(
        expression=env.compile(str(spec.get("expression", "")), ONLY_BOOL),
        message=str(spec.get("message") or ""),
        message_expression=env.compile(text, ONLY_STRING, authorizer=False) if text.strip() else None,
        reason=str(spec.get("reason") or INVALID),
    )
