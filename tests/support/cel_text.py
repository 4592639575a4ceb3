"""Syntax trees of CEL written back as text, and compared without regard to positions."""

from __future__ import annotations

from typing import Any

from nodemanager.kube.cel.ast import (
    AstNode,
    FunctionCall,
    Ident,
    Index,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Select,
    children,
)  # fmt: skip
from nodemanager.kube.cel.values import UInt


def shape(node: AstNode) -> tuple[Any, ...]:
    """Return a tree without the positions in it."""
    own = [getattr(node, name) for name in node.__slots__ if name != "position"]
    plain = tuple(repr(each) for each in own if not isinstance(each, AstNode | tuple))
    names = tuple(
        each for each in own if isinstance(each, tuple) and not any(isinstance(x, AstNode) for x in each)
    )
    return (type(node).__name__, plain, names, *(shape(child) for child in children(node)))


def write(node: AstNode) -> str:
    """Return an expression that reads as this tree, with all the parentheses it can have."""
    match node:
        case Literal():
            return _literal(node.value)
        case Ident():
            return node.name
        case Select():
            text = f"({write(node.operand)}).{'?' if node.optional else ''}{node.field}"
            return f"has({text})" if node.test else text
        case Index():
            return f"({write(node.operand)})[{'?' if node.optional else ''}{write(node.index)}]"
        case FunctionCall():
            return _call(node)
        case ListLiteral():
            return f"[{', '.join(map(write, node.items))}]"
        case MapLiteral():
            pairs = zip(node.keys, node.values, strict=True)
            return "{" + ", ".join(f"{write(key)}: {write(value)}" for key, value in pairs) + "}"
        case Macro():
            return (
                f"({write(node.target)}).{node.name}({', '.join([*node.variables, *map(write, node.args)])})"
            )
    raise TypeError(f"cannot write {node!r}")


def _call(node: FunctionCall) -> str:
    args = [f"({write(arg)})" for arg in node.args]
    if node.target is not None:
        return f"({write(node.target)}).{node.function}({', '.join(args)})"
    if node.function == "_?_:_":
        return "({} ? {} : {})".format(*args)
    if node.function in ("!_", "-_"):
        return f"{node.function[0]}{args[0]}"
    if node.function == "@in":
        return " in ".join(args)
    return f" {node.function.strip('_')} ".join(args)


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, UInt):
        return f"{int(value)}u"
    if isinstance(value, bytes):
        return "b'" + "".join(f"\\x{byte:02x}" for byte in value) + "'"
    return f"'{value}'" if isinstance(value, str) else repr(value)
