"""The parts of a rule beside its expression: `fieldPath`, `reason`, `message`, and how Go shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")
_ESCAPE = re.compile(r"\\(.)")
REASONS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}
"""The reasons a rule can give -> how a refusal with that reason begins."""


class RuleProblem(NamedTuple):
    """A field of a rule that cannot be used, and the refusal."""

    field: str
    message: str

    @property
    def reason(self) -> str:
        """The reason that goes with the message."""
        kind = self.message.partition(":")[0]
        return next((reason for reason, start in REASONS.items() if start == kind), "FieldValueNotSupported")


def read(path: str, schema: Mapping[str, Any]) -> tuple[str, str]:
    """Return a fieldPath as errors show it, and what is wrong with it."""
    shown, position = "", 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return "", "expected [ or . but got: " + path[position:]
        name = step["name"] if step["name"] is not None else _ESCAPE.sub(r"\1", step["quoted"])
        properties, values = schema.get("properties"), schema.get("additionalProperties")
        if properties is not None and name in properties:
            schema = properties[name]
            shown += f".{name}" if shown else name
        elif properties is None and isinstance(values, Mapping):
            schema = values
            shown += f"[{name}]"
        else:
            return "", "does not refer to a valid field"
        position = step.end()
    return shown, ""


def problems(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> list[RuleProblem]:
    """Return which fields of a rule beside its expressions cannot be used, and why."""
    found: list[RuleProblem] = []
    text, message, path = (str(rule.get(key, "")) for key in ("rule", "message", "fieldPath"))
    if not text.strip():
        found.append(RuleProblem("rule", "Required value: rule is not specified"))
    elif message and not message.strip():
        found.append(
            RuleProblem("message", f"Invalid value: {go_value(message)}: must be non-empty if specified")
        )
    elif "\n" in message.strip():
        found.append(
            RuleProblem("message", f"Invalid value: {go_value(message)}: must not contain line breaks")
        )
    elif "\n" in text.strip() and not message:
        why = "Required value: message must be specified if rule contains line breaks"
        found.append(RuleProblem("message", why))
    if rule.get("reason") is not None and rule["reason"] not in REASONS:
        supported = ", ".join(f'"{each}"' for each in sorted(REASONS))
        why = f"Unsupported value: {go_value(rule['reason'])}: supported values: {supported}"
        found.append(RuleProblem("reason", why))
    if path and read(path, schema)[1]:
        why = "must be a valid path"
        found.append(RuleProblem("fieldPath", f"Invalid value: {go_value(path)}: {why}"))
    return found


def shown(rule: Mapping[str, Any]) -> str:
    """Return a rule as errors show it."""
    names = {"Rule": "rule", "Message": "message", "MessageExpression": "messageExpression"}
    fields: dict[str, Any] = {name: str(rule.get(key, "")) for name, key in names.items()}
    fields["Reason"] = rule.get("reason")
    fields["FieldPath"] = str(rule.get("fieldPath", ""))
    fields["OptionalOldSelf"] = rule.get("optionalOldSelf")
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&":  # Go escapes them, as if every JSON were part of a web page
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def go_value(value: Any) -> str:
    """Return a scalar as field errors show it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
