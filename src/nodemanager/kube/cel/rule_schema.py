"""A schema with its rules compiled: one `RuleLevel` for each node that has rules, or has some below."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any

from nodemanager.kube.cel import rule_paths
from nodemanager.kube.cel.errors import CompileError
from nodemanager.kube.cel.program import Program, compile_expression
from nodemanager.kube.cel.schemas import Convert, Schema, as_resource, converter, type_of_schema
from nodemanager.kube.cel.types import BOOL, DYN, STRING, Type, optional_of
from nodemanager.kube.errors import Cause

_VALIDATIONS = "x-kubernetes-validations"


class CompiledRule:
    """One compiled rule; `errors` has the fields of the rule that cannot be used, and why."""

    def __init__(self, source: Mapping[str, Any], self_type: Type | None) -> None:
        self.text = str(source.get("rule", "")).strip()
        self.message = str(source.get("message", "")).strip()
        self.reason = str(source.get("reason", "FieldValueInvalid"))
        self.field_path = str(source.get("fieldPath", ""))
        self.optional_old = bool(source.get("optionalOldSelf"))
        self.errors: list[tuple[str, str]] = []
        variables = _variables(self_type, optional_old=self.optional_old)
        self.program = self._compile("rule", "compilation failed: ", self.text, variables)
        if self.program is not None and self.program.type not in (BOOL, DYN):
            self.errors.append(("rule", "cel expression must evaluate to a bool"))
        expression = str(source.get("messageExpression", "")).strip()
        self.message_program: Program | None = None
        if expression:
            prefix = "messageExpression compilation failed: "
            self.message_program = self._compile("messageExpression", prefix, expression, variables)
        if self.message_program is not None and self.message_program.type != STRING:
            self.errors.append(("messageExpression", "messageExpression must evaluate to a string"))
        self.held: dict[Hashable, int] = {}
        """Keys of values for which it held, each with the steps that took."""

    def key(self, value: Any) -> Hashable:
        """Return something that is equal for values that the rule cannot tell apart; None = unknown."""
        parts = self.program.parts if self.program is not None else None
        return None if parts is None else parts.key(value)

    def _compile(self, field: str, prefix: str, text: str, variables: Mapping[str, Type]) -> Program | None:
        if not text:
            return None
        try:
            return compile_expression(text, variables)
        except CompileError as why:
            self.errors.append((field, f"{prefix}{why}"))
            return None

    @property
    def shown(self) -> str:
        """How errors name the rule."""
        return self.message or self.text

    @property
    def is_transition(self) -> bool:
        """Whether the rule compares with the value before."""
        return self.program is not None and "oldSelf" in self.program.names


def _variables(self_type: Type | None, *, optional_old: bool) -> dict[str, Type]:
    if self_type is None:
        return {}
    return {"self": self_type, "oldSelf": optional_of(self_type) if optional_old else self_type}


class RuleLevel:
    """One node of the schema with the rules on it; levels without any rules below are left out."""

    def __init__(self, schema: Schema, structure: Schema, *, resource: bool = False) -> None:
        visible = as_resource(structure) if resource else structure
        self.type = str(structure.get("type", ""))
        self.sources: list[Mapping[str, Any]] = list(schema.get(_VALIDATIONS) or ())
        self.schema = structure
        self._visible = visible
        levels = [RuleLevel(each, structure) for each in schema.get("allOf") or ()]
        self.all_of = [level for level in levels if not level.is_empty]
        self.items = _child(schema.get("items"), structure.get("items"))
        self.values = _child(schema.get("additionalProperties"), structure.get("additionalProperties"))
        named = structure.get("properties", {})
        below = {key: _child(each, named.get(key)) for key, each in schema.get("properties", {}).items()}
        self.properties = {key: level for key, level in below.items() if level is not None}
        is_map_list = structure.get("x-kubernetes-list-type") == "map"
        self.keys: list[str] = list(structure.get("x-kubernetes-list-map-keys", ())) if is_map_list else []

    # Most objects have nothing at most levels: these are compiled for the first one that has.

    @cached_property
    def rules(self) -> list[CompiledRule]:
        """The rules on this node."""
        self_type = type_of_schema(self._visible, "selfType") if self.sources else None
        return [CompiledRule(source, self_type) for source in self.sources]

    @cached_property
    def convert(self) -> Convert | None:
        """What turns JSON into values that rules can read."""
        return converter(self._visible) if self.sources else None

    @cached_property
    def paths(self) -> list[str]:
        """Where each rule says that its field is."""
        return [rule_paths.read(rule.field_path, self.schema)[0] for rule in self.rules]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do here or below."""
        return not (self.sources or self.all_of or self.items or self.values or self.properties)

    def check(self, path: str, causes: list[Cause], unrelated: str = "") -> None:
        """Collect the rules that cannot be used; below `unrelated`, no value is known from before."""
        for index, (rule, source) in enumerate(zip(self.rules, self.sources, strict=True)):
            where = f"{path}.{_VALIDATIONS}[{index}]"
            problems = rule_paths.problems(source, self.schema)
            shown = rule_paths.shown(source)
            problems += [
                rule_paths.RuleProblem(field, f"Invalid value: {shown}: {why}") for field, why in rule.errors
            ]
            problems += _old_problems(rule, source, unrelated)
            causes += [Cause(f"{where}.{each.field}", each.reason, each.message) for each in problems]
        for index, level in enumerate(self.all_of):
            level.check(f"{path}.allOf[{index}]", causes, unrelated)
        for key, level in self.properties.items():
            level.check(f"{path}.properties[{key}]", causes, unrelated)
        if self.items is not None:
            self.items.check(f"{path}.items", causes, unrelated or ("" if self.keys else path))
        if self.values is not None:
            self.values.check(f"{path}.additionalProperties", causes, unrelated)


def _old_problems(
    rule: CompiledRule, source: Mapping[str, Any], unrelated: str
) -> list[rule_paths.RuleProblem]:
    if rule.is_transition and unrelated:
        why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {unrelated}"
        return [rule_paths.RuleProblem("rule", f"Invalid value: {rule_paths.go_value(rule.text)}: {why}")]
    if rule.program is not None and not rule.is_transition and source.get("optionalOldSelf") is not None:
        given = rule_paths.go_value(source["optionalOldSelf"])
        why = "may not be set if oldSelf is not used in rule"
        return [rule_paths.RuleProblem("optionalOldSelf", f"Invalid value: {given}: {why}")]
    return []


def _child(schema: Any, structure: Any) -> RuleLevel | None:
    if not isinstance(schema, Mapping) or not isinstance(structure, Mapping):
        return None
    level = RuleLevel(schema, structure, resource=bool(structure.get("x-kubernetes-embedded-resource")))
    return None if level.is_empty else level
