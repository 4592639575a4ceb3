"""The syntax tree of an expression. Operators are calls of functions such as `_+_`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """Any expression, and where it begins in the text."""

    position: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ident(Node):
    """A variable, or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`operand.field`, `operand.?field`, or `has(operand.field)`."""

    operand: Node
    field: str
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`operand[index]` or `operand[?index]`."""

    operand: Node
    index: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`function(args)` or `target.function(args)`."""

    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListLiteral(Node):
    """`[a, ?b]`; `optional` tells which items carry a question mark."""

    items: tuple[Node, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral(Node):
    """`{k: v, ?k: v}`."""

    keys: tuple[Node, ...]
    values: tuple[Node, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Macro(Node):
    """A loop over a list or map, such as `list.all(x, x > 0)`, with the variables it binds."""

    name: str
    target: Node
    variables: tuple[str, ...]
    args: tuple[Node, ...]


def children(node: Node) -> tuple[Node, ...]:
    """Return the expressions directly inside an expression."""
    match node:
        case Select():
            return (node.operand,)
        case Index():
            return (node.operand, node.index)
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case ListLiteral():
            return node.items
        case MapLiteral():
            return (*node.keys, *node.values)
        case Macro():
            return (node.target, *node.args)
    return ()


def size(node: Node) -> int:
    """Return how many nodes an expression consists of."""
    total, open_nodes = 0, [node]
    while open_nodes:
        total += 1
        open_nodes.extend(children(open_nodes.pop()))
    return total
