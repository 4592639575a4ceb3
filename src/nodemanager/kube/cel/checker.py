"""Types of expressions before they run: unknown names, fields and overloads are found here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nodemanager.kube.cel import ast, regexes, times
from nodemanager.kube.cel.errors import CelError, CompileError
from nodemanager.kube.cel.lib import formatting
from nodemanager.kube.cel.library import FUNCTIONS, TYPE_NAMES, qualified
from nodemanager.kube.cel.types import (
    BOOL,
    BYTES,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    join,
    list_of,
    map_of,
    optional_of,
    substitute,
    unify,
)  # fmt: skip
from nodemanager.kube.cel.values import kind_of

_NUMBERS = frozenset({"int", "uint", "double"})
_ORDERED = _NUMBERS | {STRING.name, BYTES.name, BOOL.name, TIMESTAMP.name, DURATION.name}
_READERS: dict[str, Callable[[str], object]] = {
    "duration": times.parse_duration,
    "timestamp": times.parse_timestamp,
    "matches": regexes.check,
}
_RELATIONS = frozenset({"_<_", "_<=_", "_>_", "_>=_"})


def check(tree: ast.AstNode, source: str, variables: Mapping[str, Type]) -> Type:
    """Return the type of an expression; raise CompileError where it has none."""
    return _Checker(source, dict(variables)).visit(tree)


class _Checker:
    def __init__(self, source: str, variables: dict[str, Type], *, mixed: bool = False) -> None:
        self.source = source
        self.variables = variables
        self.mixed = mixed  # inside the arguments of format(), lists may mix types

    def error(self, message: str, node: ast.AstNode) -> CompileError:
        return CompileError(message, self.source, node.position)

    def visit(self, node: ast.AstNode) -> Type:
        match node:
            case ast.Literal():
                return Type(kind_of(node.value))
            case ast.Ident():
                return self.name(node.name, node)
            case ast.Select():
                return self.select(node)
            case ast.Index():
                return self.index(node)
            case ast.FunctionCall():
                return self.call(node)
            case ast.ListLiteral():
                return list_of(self.common(node.items, node.optional))
            case ast.MapLiteral():
                keys = self.common(node.keys, (False,) * len(node.keys))
                return map_of(keys, self.common(node.values, node.optional))
            case ast.MessageLiteral():
                return self.message(node)
            case ast.Macro():
                return self.macro(node)
        raise TypeError(f"cannot check {node!r}: no such node")

    def name(self, name: str, node: ast.AstNode) -> Type:
        if name in self.variables:
            return self.variables[name]
        if name in TYPE_NAMES:
            return Type("type", (Type(TYPE_NAMES[name]),))
        raise self.error(f"undeclared reference to '{name}' (in container '')", node)

    def message(self, node: ast.MessageLiteral) -> Type:
        """Return the type of an object that is built; names of such types are among the variables."""
        known = self.variables.get(node.name, DYN)
        if known.name != "type" or known.args[0].fields is None:
            raise self.error(f"undeclared reference to '{node.name}' (in container '')", node)
        built = known.args[0]
        for field, value in zip(node.fields, node.values, strict=True):
            if field not in (built.fields or {}):
                raise self.error(f"undefined field '{field}'", node)
            wanted, found = (built.fields or {})[field], self.visit(value)
            if not unify(wanted, found, {}):
                raise self.error(
                    f"expected type of field '{field}' is '{wanted}' but provided type is '{found}'", value
                )
        return built

    def common(self, nodes: tuple[ast.AstNode, ...], optional: tuple[bool, ...]) -> Type:
        """Return the one type of all items; Kubernetes refuses lists and maps that mix types."""
        found: Type | None = None
        for node, is_optional in zip(nodes, optional, strict=True):
            type_ = self.visit(node)
            if is_optional and type_.name == "optional_type":
                type_ = type_.args[0] if type_.args[0] != DYN or found is None else found
            joined = type_ if found is None else join(found, type_)
            if self.mixed and (joined is None or DYN in (type_, found)):
                joined = DYN
            elif joined is None or (found is not None and (found == DYN) != (type_ == DYN)):
                raise self.error(f"expected type '{found}' but found '{type_}'", node)
            found = joined
        return found or DYN

    def select(self, node: ast.Select) -> Type:
        dotted = qualified(node)
        if dotted in TYPE_NAMES and dotted.partition(".")[0] not in self.variables:
            return self.name(dotted, node)
        operand = self.visit(node.operand)
        chained = operand.name == "optional_type"
        found = self.field(operand.args[0] if chained else operand, node)
        if node.test:
            return BOOL
        return optional_of(found) if node.optional or chained else found

    def field(self, operand: Type, node: ast.Select) -> Type:
        if operand.fields is not None:
            if node.field not in operand.fields:
                raise self.error(f"undefined field '{node.field}'", node)
            return operand.fields[node.field]
        if operand.name == "map":
            return operand.args[1]
        if operand == DYN:
            return DYN
        raise self.error(f"type '{operand}' does not support field selection", node)

    def index(self, node: ast.Index) -> Type:
        operand, index = self.visit(node.operand), self.visit(node.index)
        chained = operand.name == "optional_type"
        inner = operand.args[0] if chained else operand
        if inner.name == "list" and unify(INT, index, {}):
            found = inner.args[0]
        elif inner.name == "map" and unify(inner.args[0], index, {}):
            found = inner.args[1]
        elif inner == DYN:
            found = DYN
        else:
            raise self.no_overload("_[_]", [operand, index], node, receiver=False)
        return optional_of(found) if node.optional or chained else found

    def no_overload(self, name: str, types: list[Type], node: ast.AstNode, *, receiver: bool) -> CompileError:
        shown = [str(each) for each in types]
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if receiver else f"({', '.join(shown)})"
        return self.error(f"found no matching overload for '{name}' applied to '{applied}'", node)

    def call(self, node: ast.FunctionCall) -> Type:
        target = node.target
        if target is not None and (dotted := f"{qualified(target)}.{node.function}") in FUNCTIONS:
            return self.overload(dotted, [self.visit(arg) for arg in node.args], node, receiver=False)
        if node.function == "format" and target is not None:
            return self.format(node, target)
        types = [self.visit(arg) for arg in (node.args if target is None else (target, *node.args))]
        if target is None:
            self.literals(node)
            special = self.operator(node, types)
            if special is not None:
                return special
        elif node.function in ("or", "orValue") and len(types) == 2:
            return self.optional_or(node, types)
        if target is not None and node.function == "matches":
            self.literals(node)
        return self.overload(node.function, types, node, receiver=target is not None)

    def format(self, node: ast.FunctionCall, target: ast.AstNode) -> Type:
        inner = _Checker(self.source, self.variables, mixed=True)
        types = [self.visit(target), *(inner.visit(arg) for arg in node.args)]
        literal = node.args[0] if len(node.args) == 1 else None
        if (
            isinstance(target, ast.Literal)
            and isinstance(target.value, str)
            and isinstance(literal, ast.ListLiteral)
        ):
            given = [inner.visit(item).name for item in literal.items]
            if problem := formatting.check_literal(target.value, given):
                raise self.error(problem, node)
        return self.overload("format", types, node, receiver=True)

    def operator(self, node: ast.FunctionCall, types: list[Type]) -> Type | None:
        name = node.function
        fits: bool
        result = BOOL
        if name in ("_&&_", "_||_"):
            fits = all(unify(BOOL, each, {}) for each in types)
        elif name == "_?_:_":
            joined = join(types[1], types[2])
            fits, result = unify(BOOL, types[0], {}) and joined is not None, joined or DYN
        elif name in ("_==_", "_!=_"):
            fits = join(types[0], types[1]) is not None
        elif name in _RELATIONS:
            fits = _ordered(types[0], types[1])
        elif name == "@in":
            container = types[1]
            fits = container == DYN or (
                container.name in ("list", "map") and join(container.args[0], types[0]) is not None
            )
        else:
            return None
        if not fits:
            raise self.no_overload(name, types, node, receiver=False)
        return result

    def optional_or(self, node: ast.FunctionCall, types: list[Type]) -> Type:
        optional, other = types
        wanted = optional if node.function == "or" else DYN
        if optional.name == "optional_type" and node.function == "orValue":
            wanted = optional.args[0]
        joined = join(wanted, other)
        if (optional != DYN and optional.name != "optional_type") or joined is None:
            raise self.no_overload(node.function, types, node, receiver=True)
        return other if joined == DYN else joined

    def overload(self, name: str, types: list[Type], node: ast.AstNode, *, receiver: bool) -> Type:
        if name not in FUNCTIONS:
            raise self.error(f"undeclared reference to '{name}' (in container '')", node)
        results: list[Type] = []
        for each in FUNCTIONS[name]:
            signature = each.signature
            if signature.receiver != receiver or len(signature.params) != len(types):
                continue
            bound: dict[str, Type] = {}
            if all(unify(p, t, bound) for p, t in zip(signature.params, types, strict=True)):
                results.append(substitute(signature.result, bound))
        if not results:
            raise self.no_overload(name, types, node, receiver=receiver)
        return results[0] if all(each == results[0] for each in results) else DYN

    def literals(self, node: ast.FunctionCall) -> None:
        """Refuse constants that can never be read, as Kubernetes does when a rule is written."""
        arg = node.args[-1] if node.args else None
        reader = _READERS.get(node.function)
        if reader is None or not isinstance(arg, ast.Literal):
            return
        if not isinstance(arg.value, str):
            if node.function == "duration":
                raise self.error("invalid duration argument", arg)
            return
        try:
            reader(arg.value)
        except CelError as why:
            raise self.error(f"invalid {node.function} argument: {why}", arg) from None

    def macro(self, node: ast.Macro) -> Type:
        target = self.visit(node.target)
        types = self.variable_types(target, node)
        bound = dict(zip(node.variables, types, strict=True))
        inner = _Checker(self.source, {**self.variables, **bound}, mixed=self.mixed)
        results = [inner.visit(arg) for arg in node.args]
        predicates = results[:-1] if node.name in _TRANSFORMS else results
        if node.name not in ("optMap", "optFlatMap", "sortBy"):
            for arg, result in zip(node.args, predicates, strict=False):
                if not unify(BOOL, result, {}):
                    raise self.error(f"expected type 'bool' but found '{result}'", arg)
        return _macro_type(node.name, target, types, results[-1])

    def variable_types(self, target: Type, node: ast.Macro) -> list[Type]:
        if node.name in ("optMap", "optFlatMap"):
            if target.name not in ("optional_type", "dyn"):
                raise self.no_overload("hasValue", [target], node, receiver=True)
            return [target.args[0] if target.args else DYN]
        if target.name == "list" and target.args:
            return [target.args[0]] if len(node.variables) == 1 else [INT, target.args[0]]
        if target.name == "map":
            return list(target.args[: len(node.variables)])
        if target == DYN:
            return [DYN] * len(node.variables)
        allowed = "(must be list, map, or dynamic)"
        raise self.error(f"expression of type '{target}' cannot be range of a comprehension {allowed}", node)


_TRANSFORMS = frozenset({"map", "transformList", "transformMap", "transformMapEntry"})


def _ordered(left: Type, right: Type) -> bool:
    if {left.name, right.name} <= _NUMBERS:
        return True
    ordered = _ORDERED | {"dyn"}
    return left.name in ordered and right.name in ordered and join(left, right) is not None


def _macro_type(name: str, target: Type, variables: list[Type], result: Type) -> Type:
    match name:
        case "map" | "transformList":
            return list_of(result)
        case "filter":
            return list_of(variables[0])
        case "sortBy":
            return target
        case "transformMap":
            return map_of(variables[0], result)
        case "transformMapEntry" | "optFlatMap":
            return result
        case "optMap":
            return optional_of(result)
    return BOOL
