"""The parts of an object that decide whether a rule holds: objects with equal parts are checked once.

A thousand files differ in their paths and contents, but `self.path != "/"` tells none of them apart. So a
rule is asked about a few kinds of files, and not about a thousand.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from nodemanager.kube.cel.ast import AstNode, FunctionCall, Ident, ListLiteral, Literal, Select, children

MOST_TEXT: Final = 64
"""Longer texts, if all of them matters, are hardly ever the same."""
_SELF: Final = "self"
_ABSENT, _PRESENT, _OTHER = object(), object(), object()

Texts = frozenset[str] | None
"""All texts that a field is compared with; empty = only whether it is there counts, None = all of it does."""


class DecisiveParts:
    """The fields of `self` that an expression reads, and how; no fields = `self` as a whole."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, Texts]) -> None:
        self._fields = tuple(fields.items())

    def key(self, value: Any) -> Hashable:
        """Return something that is equal for values that the expression cannot tell apart; None = unknown."""
        if not self._fields:
            return value if type(value) is str and len(value) <= MOST_TEXT else None
        if not isinstance(value, dict):
            return None
        parts: list[Hashable] = []
        for name, texts in self._fields:
            found = value.get(name, _ABSENT)
            if found is not _ABSENT and found is not None:
                if texts is not None and not texts:
                    found = _PRESENT
                elif type(found) is not str or (texts is None and len(found) > MOST_TEXT):
                    return None
                elif texts is not None and found not in texts:
                    found = _OTHER
            parts.append(found)
        return tuple(parts)


def parts_of(tree: AstNode, names: frozenset[str]) -> DecisiveParts | None:
    """Return what decides about an expression that reads these variables; None = something else does, too."""
    if names != {_SELF}:
        return None
    fields: dict[str, Texts] = {}
    return DecisiveParts(fields if _collect(tree, fields) else {})


def _collect(node: AstNode, fields: dict[str, Texts]) -> bool:
    """Note the fields that an expression reads; False = it reads `self` otherwise."""
    if isinstance(node, Ident):
        return node.name != _SELF
    texts: Texts = None
    field = _field(node)
    if field and isinstance(node, Select) and node.test:
        texts = frozenset()
    elif isinstance(node, FunctionCall) and node.function in ("_==_", "_!=_", "@in"):
        field, texts = _compared(node)
    if not field:
        return all(_collect(child, fields) for child in children(node))
    known = fields.get(field, frozenset())
    fields[field] = None if texts is None or known is None else known | texts
    return True


def _field(node: AstNode) -> str:
    """Return the field of `self` that an expression is."""
    if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == _SELF:
        return node.field
    return ""


def _compared(node: FunctionCall) -> tuple[str, Texts]:
    """Return the field that is compared with texts, and the texts; no field = something else is compared."""
    left, right = node.args if len(node.args) == 2 else (node, node)
    literals = right.items if node.function == "@in" and isinstance(right, ListLiteral) else (right,)
    values = (one.value for one in literals if isinstance(one, Literal))
    texts = frozenset(value for value in values if isinstance(value, str))
    read = isinstance(left, Select) and not left.test and not left.optional
    return (_field(left), texts) if read and len(texts) == len(literals) else ("", None)
