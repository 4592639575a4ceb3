"""The syntax tree of an expression. Operators are calls of functions such as `_+_`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AstNode:
    """Any expression, and where it begins in the text."""

    position: int


@dataclass(frozen=True, slots=True)
class Literal(AstNode):
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ident(AstNode):
    """A variable, or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(AstNode):
    """`operand.field`, `operand.?field`, or `has(operand.field)`."""

    operand: AstNode
    field: str
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class Index(AstNode):
    """`operand[index]` or `operand[?index]`."""

    operand: AstNode
    index: AstNode
    optional: bool = False


@dataclass(frozen=True, slots=True)
class FunctionCall(AstNode):
    """`function(args)` or `target.function(args)`."""

    function: str
    target: AstNode | None
    args: tuple[AstNode, ...]


@dataclass(frozen=True, slots=True)
class ListLiteral(AstNode):
    """`[a, ?b]`; `optional` tells which items carry a question mark."""

    items: tuple[AstNode, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral(AstNode):
    """`{k: v, ?k: v}`."""

    keys: tuple[AstNode, ...]
    values: tuple[AstNode, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class MessageLiteral(AstNode):
    """`JSONPatch{op: "add"}`: an object of a type that has a name."""

    name: str
    fields: tuple[str, ...]
    values: tuple[AstNode, ...]


@dataclass(frozen=True, slots=True)
class Macro(AstNode):
    """A loop over a list or map, such as `list.all(x, x > 0)`, with the variables it binds."""

    name: str
    target: AstNode
    variables: tuple[str, ...]
    args: tuple[AstNode, ...]


def children(node: AstNode) -> tuple[AstNode, ...]:
    """Return the expressions directly inside an expression."""
    match node:
        case Select():
            return (node.operand,)
        case Index():
            return (node.operand, node.index)
        case FunctionCall():
            return node.args if node.target is None else (node.target, *node.args)
        case ListLiteral():
            return node.items
        case MapLiteral():
            return (*node.keys, *node.values)
        case MessageLiteral():
            return node.values
        case Macro():
            return (node.target, *node.args)
    return ()


def size(node: AstNode) -> int:
    """Return how many nodes an expression consists of."""
    total, open_nodes = 0, [node]
    while open_nodes:
        total += 1
        open_nodes.extend(children(open_nodes.pop()))
    return total
