"""The expressions of an admission policy: what they can see, of which type they must be, and how they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.kube.cel.errors import CelError, CompileError
from nodemanager.kube.cel.lib.authz import AUTHORIZER_TYPE
from nodemanager.kube.cel.program import Program, compile_expression
from nodemanager.kube.cel.scope import PER_CALL_LIMIT, EvaluationScope
from nodemanager.kube.cel.types import BOOL, DYN, INT, NULL, STRING, TIMESTAMP, Type, list_of, map_of
from nodemanager.kube.cel.values import SchemaObject

BUDGET = 10_000_000
"""Steps that all policies together may take for one request."""
CONDITIONS_BUDGET = 2_500_000
"""Steps that the matchConditions of one policy may take."""
EXHAUSTED = "validation failed due to running out of cost budget, no further validation rules will be run"

_STRINGS = list_of(STRING)
_KIND = Type("kubernetes.GroupVersionKind", fields={"group": STRING, "version": STRING, "kind": STRING})
_RESOURCE = Type(
    "kubernetes.GroupVersionResource", fields={"group": STRING, "version": STRING, "resource": STRING}
)
_USER = Type(
    "kubernetes.UserInfo",
    fields={"username": STRING, "uid": STRING, "groups": _STRINGS, "extra": map_of(STRING, _STRINGS)},
)
REQUEST_TYPE = Type(
    "kubernetes.AdmissionRequest",
    fields={
        "kind": _KIND, "resource": _RESOURCE, "subResource": STRING,
        "requestKind": _KIND, "requestResource": _RESOURCE, "requestSubResource": STRING,
        "name": STRING, "namespace": STRING, "operation": STRING,
        "userInfo": _USER, "dryRun": BOOL, "options": DYN,
    },
)  # fmt: skip
_METADATA = Type(
    "kubernetes.NamespaceMetadata",
    fields={
        "name": STRING, "generateName": STRING, "namespace": STRING, "UID": STRING,
        "labels": map_of(STRING, STRING), "annotations": map_of(STRING, STRING),
        "creationTimestamp": TIMESTAMP, "deletionTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT, "generation": INT, "resourceVersion": STRING,
        "finalizers": _STRINGS,
    },
)  # fmt: skip
_CONDITION = Type(
    "kubernetes.NamespaceCondition",
    fields={
        "status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING,
        "reason": STRING,
    },
)  # fmt: skip
NAMESPACE_TYPE = Type(
    "kubernetes.Namespace",
    fields={
        "metadata": _METADATA,
        "spec": Type("kubernetes.NamespaceSpec", fields={"finalizers": _STRINGS}),
        "status": Type(
            "kubernetes.NamespaceStatus", fields={"conditions": list_of(_CONDITION), "phase": STRING}
        ),
    },
)
JSON_PATCH_TYPE = Type("JSONPatch", fields={"op": STRING, "path": STRING, "from": STRING, "value": DYN})
"""One operation of a JSON patch, which expressions of mutating policies build."""
_VARIABLES = "kubernetes.variables"
ANY: tuple[Type, ...] = ()
ONLY_BOOL, ONLY_STRING, STRING_OR_NULL = (BOOL,), (STRING,), (STRING, NULL)
ONLY_PATCHES = (list_of(JSON_PATCH_TYPE),)


class PolicyOutOfBudget(Exception):
    """Nothing more is evaluated for this request."""

    def __init__(self) -> None:
        super().__init__(EXHAUSTED)


@dataclass(frozen=True, slots=True)
class Expression:
    """A text and the program it became, or why it became none."""

    source: str
    program: Program | None = None
    error: str = ""


class Environment:
    """The names that the expressions of one policy can use; every variable adds one."""

    def __init__(self, *, has_params: bool, composed: bool) -> None:
        self._names: dict[str, Type] = {
            "object": DYN, "oldObject": DYN, "request": REQUEST_TYPE, "namespaceObject": NAMESPACE_TYPE,
        }  # fmt: skip
        if has_params:
            self._names["params"] = DYN
        self._fields: dict[str, Type] = {}
        self._composed = composed

    def add(self, name: str, expression: Expression) -> None:
        """Make a variable known to the expressions after it."""
        self._fields[name] = expression.program.type if expression.program else DYN

    def compile(
        self, source: str, wanted: tuple[Type, ...], *, composed: bool = True, authorizer: bool = True
    ) -> Expression:
        """Compile an expression that must be of one of the types wanted; the result says why it cannot."""
        names = dict(self._names)
        if authorizer:
            names["authorizer"] = AUTHORIZER_TYPE
        if composed and self._composed:
            names["variables"] = Type(_VARIABLES, fields=self._fields)
        if wanted is ONLY_PATCHES:
            names[JSON_PATCH_TYPE.name] = Type("type", (JSON_PATCH_TYPE,))
        try:
            program = compile_expression(source, names)
        except CompileError as why:
            return Expression(source, error=f"compilation failed: {why}")
        if wanted and program.type not in wanted:
            return Expression(source, error=_wrong_type(program.type, wanted))
        return Expression(source, program)


def _wrong_type(found: Type, wanted: tuple[Type, ...]) -> str:
    if len(wanted) == 1:
        return f"must evaluate to {wanted[0]} but got {found}"
    names = " ".join("null_type" if each == NULL else str(each) for each in wanted)
    return f"must evaluate to one of [{names}] but got {found}"


class EvaluationBudget:
    """The steps that are left."""

    __slots__ = ("left",)

    def __init__(self, steps: int = BUDGET) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Count work; raise PolicyOutOfBudget when it was too much."""
        self.left -= steps
        if self.left < 0:
            raise PolicyOutOfBudget


class _Variables(SchemaObject):
    """The variables of a policy: each is computed when it is first read, its error kept like a value."""

    __slots__ = ("_compute", "_known")

    def __init__(self, known: Mapping[str, Expression], compute: Callable[[Expression], Any]) -> None:
        super().__init__()
        self._known = known
        self._compute = compute

    def __missing__(self, name: str) -> Any:
        if name not in self._known:
            raise KeyError(name)
        try:
            value = self._compute(self._known[name])
        except CelError as why:
            value = CelError(f'composited variable "{name}" fails to evaluate: {why}')
        self[name] = value
        return self._checked(value)

    def __getitem__(self, name: str) -> Any:
        return self._checked(super().__getitem__(name))

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable: `has()` asks in this way."""
        return self[name] if name in self._known else default

    @staticmethod
    def _checked(value: Any) -> Any:
        if isinstance(value, CelError):
            raise value
        return value


class Evaluation:
    """Runs expressions over the same values, within one budget; variables are computed once."""

    def __init__(
        self, values: Mapping[str, Any], variables: Mapping[str, Expression], budget: EvaluationBudget
    ) -> None:
        self._budget = budget
        self._values = {**values, "variables": _Variables(variables, self._compute)}

    def run(self, expression: Expression) -> Any:
        """Return the value; raise CelError in Kubernetes' words, or PolicyOutOfBudget."""
        if expression.program is None:
            raise CelError(f"compilation error: {expression.error}")
        try:
            return self._compute(expression)
        except CelError as why:
            raise CelError(f"expression '{expression.source}' resulted in error: {why}") from None

    def _compute(self, expression: Expression) -> Any:
        if expression.program is None:
            raise CelError(f"compilation error: {expression.error}")
        scope = EvaluationScope(self._values, PER_CALL_LIMIT)
        try:
            return expression.program.run(scope)
        finally:
            self._budget.spend(PER_CALL_LIMIT - max(scope.left, 0))
