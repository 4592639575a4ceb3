"""Small mistakes that somebody could make in a module, one at a time.

    source -> parse -> one `Mutant` per mistake -> `write` returns the source that has it

What changes nothing but a text, a type or a number that somebody once chose is left out: log lines,
annotations, and the constants of modules and classes.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COUNTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
}
_JOINED: Final = (ast.BitOr, ast.BitAnd)
"""Flags, masks and unions of types: either side can be forgotten."""
_IDLE: Final = ("os.O_RDONLY", "os.O_CLOEXEC")
"""Flags that say nothing: the one is 0, the other Python sets by itself."""
_UNTOUCHED: Final = {"annotation", "returns", "decorator_list", "bases"}
_MAX_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake."""

    line: int
    scope: str
    """The function that it is in; empty = the module."""
    change: str
    _owner: Any
    _field: str
    _at: int | None
    _new: ast.AST

    def write(self, tree: ast.Module) -> str:
        """Return the source with the mistake; the tree it was found in is left as it was."""
        old = self._put(self._new)
        try:
            return ast.unparse(ast.fix_missing_locations(tree))
        finally:
            self._put(old)

    def _put(self, node: Any) -> Any:
        if self._at is None:
            old = getattr(self._owner, self._field)
            setattr(self._owner, self._field, node)
            return old
        entries = getattr(self._owner, self._field)
        old, entries[self._at] = entries[self._at], node
        return old


@dataclass(frozen=True, slots=True)
class _Place:
    scope: str = ""
    acting: bool = False
    """Inside of a function: a number there decides something."""


def mutants(tree: ast.Module) -> list[Mutant]:
    """Return all mistakes, in the order of the source."""
    return list(_below(tree, _Place()))


def _below(owner: ast.AST, place: _Place) -> Iterator[Mutant]:
    for field, value in ast.iter_fields(owner):
        if field in _UNTOUCHED or (isinstance(owner, ast.ClassDef) and field == "keywords"):
            continue
        for at, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or _is_log(node):
                continue
            for new in () if _is_part(owner, node) else _mistakes(node, place):
                change = f"{_shown(node)} -> {_shown(new)}"
                if isinstance(node, ast.Constant):
                    change += f" in {_shown(owner)}"
                yield Mutant(getattr(node, "lineno", 0), place.scope, change, owner, field, at, new)
            yield from _below(node, _entered(node, place))


def _entered(node: ast.AST, place: _Place) -> _Place:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        name = f"{place.scope}.{node.name}" if place.scope else node.name
        return _Place(name, acting=not isinstance(node, ast.ClassDef))
    if isinstance(node, ast.arguments):
        return _Place(place.scope)
    return place


def _is_part(owner: ast.AST, node: ast.AST) -> bool:
    """Tell whether this is only a part of something that is joined by one operator, and taken as a whole."""
    if not isinstance(owner, ast.BinOp) or not isinstance(node, ast.BinOp):
        return False
    return isinstance(owner.op, _JOINED) and type(node.op) is type(owner.op)


def _is_log(node: ast.AST) -> bool:
    """Tell whether this only tells people something."""
    return isinstance(node, ast.Expr) and _shown(node).startswith(("log.", "self._log."))


def _mistakes(node: ast.AST, place: _Place) -> Iterator[ast.AST]:
    if isinstance(node, ast.stmt):
        yield from _statement(node, place)
    elif isinstance(node, ast.expr):
        yield from _expression(node, place)
    elif isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Tuple):
        for kept in _without_one(node.type):
            yield _with(node, type=kept)


def _statement(node: ast.stmt, place: _Place) -> Iterator[ast.AST]:
    if _can_go(node, place):
        yield ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.If | ast.While) and not _is_mutated(node.test):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))


def _can_go(node: ast.stmt, place: _Place) -> bool:
    if isinstance(node, ast.Expr):
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        return isinstance(value, ast.Call)
    if isinstance(node, ast.Assign | ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        kept = isinstance(target, ast.Attribute | ast.Subscript) or isinstance(node, ast.AugAssign)
        return kept and not place.scope.endswith("__init__")
    if isinstance(node, ast.Delete):  # of a name it says only that nobody needs it
        return not all(isinstance(one, ast.Name) for one in node.targets)
    bare = isinstance(node, ast.Return) and node.value is None
    return bare or isinstance(node, ast.Raise | ast.Continue | ast.Break)


def _expression(node: ast.expr, place: _Place) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        yield from _comparison(node)
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for at in range(len(node.values)):
            left = node.values[:at] + node.values[at + 1 :]
            yield _with(node, values=left) if len(left) > 1 else left[0]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.IfExp) and not _is_mutated(node.test):
        yield _with(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.BinOp):
        if not _is_chosen(node, place):
            yield from _computation(node)
    elif isinstance(node, ast.Constant):
        yield from _constant(node, place)


def _comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for at, op in enumerate(node.ops):
        for other in _COMPARED[type(op)]:
            yield _with(node, ops=[*node.ops[:at], other(), *node.ops[at + 1 :]])
        listed = node.comparators[at]
        if isinstance(op, ast.In | ast.NotIn) and isinstance(listed, ast.Tuple | ast.Set):
            for kept in _without_one(listed):
                yield _with(node, comparators=[*node.comparators[:at], kept, *node.comparators[at + 1 :]])


def _computation(node: ast.BinOp) -> Iterator[ast.AST]:
    if isinstance(node.op, _JOINED):
        parts = _parts(node, type(node.op))
        for at, part in enumerate(parts):
            if ast.unparse(part) not in _IDLE:
                left = parts[:at] + parts[at + 1 :]
                yield functools.reduce(lambda one, other: ast.BinOp(one, node.op, other), left)
    elif type(node.op) in _COUNTED:
        yield _with(node, op=_COUNTED[type(node.op)]())


def _is_chosen(node: ast.BinOp, place: _Place) -> bool:
    """Tell whether this is a number, or a name for several types, outside of any function."""
    parts = [one for one in ast.walk(node) if not isinstance(one, ast.BinOp | ast.operator | ast.Load)]
    return not place.acting and all(isinstance(one, ast.Name | ast.Constant | ast.Subscript) for one in parts)


def _parts(node: ast.expr, op: type[ast.operator]) -> list[ast.expr]:
    """Return what is joined by an operator, however often."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, op):
        return [*_parts(node.left, op), *_parts(node.right, op)]
    return [node]


def _constant(node: ast.Constant, place: _Place) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float) and place.acting:
        yield ast.Constant(node.value + 1)


def _is_mutated(test: ast.expr) -> bool:
    """Tell whether the mistakes in a condition are as good as its opposite."""
    return isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)


def _without_one(listed: ast.Tuple | ast.Set) -> Iterator[ast.AST]:
    for at in range(len(listed.elts)):
        yield _with(listed, elts=listed.elts[:at] + listed.elts[at + 1 :])


def _with(node: ast.AST, **fields: Any) -> ast.AST:
    new = copy.copy(node)
    for field, value in fields.items():
        setattr(new, field, value)
    return new


def _shown(node: ast.AST) -> str:
    """Return the beginning of a node's source."""
    text = ast.unparse(ast.fix_missing_locations(copy.copy(node))).partition("\n")[0]
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
