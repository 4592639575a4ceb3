"""The `x-kubernetes-validations` of a schema: checked when they are written, applied to objects.

The texts are those of kube-apiserver, because people search for them. A rule that fails for a
value which an update left alone does not refuse the update (ratcheting), as in Kubernetes.
"""

from __future__ import annotations

import contextlib
from typing import Any

from nodemanager.kube.cel import rule_paths
from nodemanager.kube.cel.errors import CelError, CostExceeded
from nodemanager.kube.cel.program import Program
from nodemanager.kube.cel.rule_schema import CompiledRule, RuleLevel
from nodemanager.kube.cel.schemas import Schema
from nodemanager.kube.cel.scope import PER_CALL_LIMIT, EvaluationScope
from nodemanager.kube.cel.values import NONE, Optional
from nodemanager.kube.errors import Cause

BUDGET = 10_000_000
"""Steps all rules together may take for one object."""
MAX_HELD = 256
"""For how many kinds of values it is remembered that a rule held."""
MAX_MESSAGE = 5 * 1024
"""How many bytes the result of a messageExpression may have."""


_EXHAUSTED = "validation failed due to running out of cost budget, no further validation rules will be run"


class RulesOutOfBudget(Exception):
    """No further rules are run for this object."""


class RuleSet:
    """All rules of a schema, compiled once and applied to many objects."""

    def __init__(self, schema: Schema, *, resource: bool = True) -> None:
        self._root = RuleLevel(schema, schema, resource=resource)

    def evaluate(self, value: Any, *, old: Any = None) -> list[Cause]:
        """Return what the rules refuse; `old` is the object before an update."""
        walk = _Walk()
        with contextlib.suppress(RulesOutOfBudget):  # the last cause says so
            walk.visit(self._root, "", value, _Old(old, is_root=True))
        return walk.causes

    def check(self, path: str) -> list[Cause]:
        """Return the rules that cannot be used; `path` is where the schema is."""
        causes: list[Cause] = []
        self._root.check(path, causes)
        return causes


def check_rules(schema: Schema, path: str = "spec.validation.openAPIV3Schema") -> list[Cause]:
    """Return the rules of a schema that Kubernetes would not take, and why."""
    return RuleSet(schema).check(path)


class _Old:
    """The value before an update, if one corresponds, and whether anything changed since."""

    __slots__ = ("is_root", "known", "unchanged_above", "value")

    def __init__(
        self, value: Any, *, known: bool = True, unchanged_above: bool = False, is_root: bool = False
    ) -> None:
        self.value = value
        self.known = known
        self.unchanged_above = unchanged_above
        self.is_root = is_root

    def unchanged(self, value: Any) -> bool:
        """Whether an error here was there before the update."""
        if not self.known:
            return self.unchanged_above
        return self.value is not None and bool(self.value == value)

    def key(self, name: str, value: Any) -> _Old:
        """Return what corresponds to a field or key."""
        if self.is_root and name in ("apiVersion", "kind"):
            return _Old(None, known=False)
        above = self.unchanged(value)
        if isinstance(self.value, dict) and self.known:
            return _Old(self.value.get(name), known=name in self.value, unchanged_above=above)
        return _Old(None, known=False, unchanged_above=above)

    def item(self, item: Any, keys: list[str], value: Any) -> _Old:
        """Return what corresponds to an item of a list: only keys can tell."""
        above = self.unchanged(value)
        if keys and isinstance(self.value, list) and isinstance(item, dict):
            wanted = [item.get(key) for key in keys]
            for each in self.value:
                if isinstance(each, dict) and [each.get(key) for key in keys] == wanted:
                    return _Old(each, unchanged_above=above)
        return _Old(None, known=False, unchanged_above=above)


class _Walk:
    """One validation: what was refused so far, and the steps that are left."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.left = BUDGET

    def visit(self, level: RuleLevel, path: str, value: Any, old: _Old) -> None:
        if value is None:
            return
        if level.sources:
            self._apply(level, path, value, old)
        for each in level.all_of:
            self.visit(each, path, value, _Old(old.value, known=False, unchanged_above=old.unchanged_above))
        if isinstance(value, list) and level.items is not None:
            for index, item in enumerate(value):
                self.visit(level.items, f"{path}[{index}]", item, old.item(item, level.keys, value))
        elif isinstance(value, dict):
            for key, item in value.items():
                if level.values is not None:
                    self.visit(level.values, f"{path}[{key}]", item, old.key(key, value))
                if key in level.properties:
                    below = f"{path}.{key}" if path else key
                    self.visit(level.properties[key], below, item, old.key(key, value))

    def _apply(self, level: RuleLevel, path: str, value: Any, old: _Old) -> None:
        convert = level.convert or (lambda each: each)
        try:
            current = convert(value)
            before = convert(old.value) if old.value is not None else None
        except CelError as why:
            self._refuse(path, f'"{level.type}": {why} evaluating rule: {level.rules[0].shown}')
            return
        for rule, field_path in zip(level.rules, level.paths, strict=True):
            if rule.errors:
                self._refuse(path, f'"{level.type}": rule compile error: {rule.errors[0][1]}')
            elif rule.program is not None and not (
                rule.is_transition and before is None and not rule.optional_old
            ):
                variables = {"self": current, "oldSelf": before}
                if rule.optional_old:
                    variables["oldSelf"] = NONE if before is None else Optional(True, before)
                if not self._holds(rule, level, path, variables):
                    where = ".".join(part for part in (path, field_path) if part)
                    ratchets = not rule.is_transition and old.unchanged(value)
                    self._failed(rule, level, where, (value, variables, ratchets))

    def _holds(self, rule: CompiledRule, level: RuleLevel, path: str, variables: dict[str, Any]) -> bool:
        """Run a rule, unless it held for a value that it cannot tell from this one.

        An error is noted as a fault of its own, so the rule counts as holding.
        """
        key = rule.key(variables["self"])
        if key is not None and (spent := rule.held.get(key)) is not None:
            self._spend(spent, path, level)
            return True
        before = self.left
        try:
            holds = rule.program is None or self._run(rule.program, variables, path, level) is True
        except CostExceeded as why:
            text = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._refuse(path, f"\"{level.type}\": '{why}': {text}: {rule.shown}")
            raise RulesOutOfBudget from None
        except CelError as why:
            if str(why).startswith("no such overload"):
                text = "call arguments did not match a supported operator, function or macro signature"
                text = f"'{why}': {text} for rule: {rule.shown}"
            else:
                text = f"{why} evaluating rule: {rule.shown}"
            self._refuse(path, f'"{level.type}": {text}')
            return True
        if holds and key is not None and len(rule.held) < MAX_HELD:
            rule.held[key] = before - self.left
        return holds

    def _run(self, program: Program, variables: dict[str, Any], path: str, level: RuleLevel) -> Any:
        scope = EvaluationScope(variables, PER_CALL_LIMIT)
        try:
            return program.run(scope)
        finally:
            self._spend(PER_CALL_LIMIT - max(scope.left, 0), path, level)

    def _spend(self, steps: int, path: str, level: RuleLevel) -> None:
        self.left -= steps
        if self.left < 0:
            self._refuse(path, f'"{level.type}": {_EXHAUSTED}')
            raise RulesOutOfBudget

    def _failed(
        self, rule: CompiledRule, level: RuleLevel, path: str, found: tuple[Any, dict[str, Any], bool]
    ) -> None:
        value, variables, ratchets = found
        detail = rule.message or f"failed rule: {rule.text}"
        if rule.message_program is not None:
            detail = self._message(rule.message_program, variables, path, level) or detail
        if ratchets:
            return
        shown = "" if level.type in ("object", "array") else rule_paths.go_value(value)
        kind = rule_paths.REASONS.get(rule.reason, "Invalid value")
        match rule.reason:
            case "FieldValueForbidden" | "FieldValueRequired":
                message = f"{kind}: {detail}"
            case "FieldValueDuplicate":
                message = f"{kind}: {shown}" if shown else kind
            case _:
                message = ": ".join(part for part in (kind, shown, detail) if part)
        self.causes.append(Cause(path or "<nil>", rule.reason, message))

    def _message(self, program: Program, variables: dict[str, Any], path: str, level: RuleLevel) -> str:
        try:
            text = self._run(program, variables, path, level)
        except CelError:
            return ""
        text = text.strip() if isinstance(text, str) else ""
        return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE else text

    def _refuse(self, path: str, text: str) -> None:
        self.causes.append(Cause(path or "<nil>", "FieldValueInvalid", f"Invalid value: {text}"))
