"""Syntax tree -> Python closures. Each takes an EvaluationScope and returns a value, or raises CelError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodemanager.kube.cel import ast, loops
from nodemanager.kube.cel.errors import CelError, CostExceeded, no_such_overload
from nodemanager.kube.cel.library import FUNCTIONS, TYPE_NAMES, qualified
from nodemanager.kube.cel.registry import Dispatcher
from nodemanager.kube.cel.scope import Code, EvaluationScope, size_cost
from nodemanager.kube.cel.values import (
    NONE,
    CelExtension,
    Optional,
    SchemaObject,
    SetList,
    compare,
    contains,
    equal,
    kind_of,
    named_type,
    to_key,
    type_of,
)  # fmt: skip

_MISSING = object()


def compile_node(node: ast.AstNode) -> Code:
    """Return what computes the value of a checked expression."""
    match node:
        case ast.Literal():
            return _constant(node.value)
        case ast.Ident():
            return _variable(node.name)
        case ast.Select():
            return _select(node)
        case ast.Index():
            return _index(node)
        case ast.FunctionCall():
            return _call(node)
        case ast.ListLiteral():
            return _list(node)
        case ast.MapLiteral():
            return _map(node)
        case ast.MessageLiteral():
            return _message(node)
        case ast.Macro():
            return loops.compile_macro(node, compile_node)
    raise TypeError(f"cannot compile {node!r}: no such node")


def _constant(value: Any) -> Code:
    return lambda _scope: value


def _variable(name: str) -> Code:
    def read(scope: EvaluationScope) -> Any:
        try:
            return scope.variables[name]
        except KeyError:
            if name in TYPE_NAMES:
                return named_type(TYPE_NAMES[name])
            raise CelError(f"no such attribute(s): {name}") from None

    return read


def get_field(value: Any, field: str) -> Any:
    """Return a field of an object or the value of a key; an optional passes its absence on."""
    if isinstance(value, dict):
        try:
            return value[field]
        except KeyError:
            raise CelError(f"no such key: {field}") from None
    if isinstance(value, Optional):
        return get_optional(value, field)
    if isinstance(value, CelExtension):
        return value.field(field)
    if isinstance(value, list):
        raise no_such_overload()
    raise CelError(f"no such key: {field}")  # a scalar or null: as cel-go has it, it only lacks the field


def get_optional(value: Any, key: Any) -> Optional:
    """Return an item or a field that may be absent."""
    if isinstance(value, Optional):
        return get_optional(value.value, key) if value.present else NONE
    try:
        return Optional(True, get_item(value, key))
    except CelError as why:
        if "no such key" in str(why) or "index out of bounds" in str(why):
            return NONE
        raise


def get_item(value: Any, key: Any) -> Any:
    """Return an item of a list or map."""
    if isinstance(value, list):
        position = int(key) if kind_of(key) in ("int", "uint", "double") else None
        if position is None or position != key:
            raise CelError(f"unsupported index type '{type_of(key).name}' in list")
        if not 0 <= position < len(value):
            raise CelError(f"index out of bounds: {position}")
        return value[position]
    if isinstance(value, dict):
        try:
            return value[to_key(key)]
        except KeyError:
            raise CelError(f"no such key: {key}") from None
    if isinstance(value, Optional):
        return get_optional(value, key)
    if value is None:
        raise CelError(f"no such key: {key}")
    raise no_such_overload()


def _select(node: ast.Select) -> Code:
    dotted = qualified(node)
    if dotted in TYPE_NAMES:
        return _constant(named_type(TYPE_NAMES[dotted]))
    operand, field = compile_node(node.operand), node.field
    if node.test:
        return lambda scope: _has(operand(scope), field)
    if node.optional:
        return lambda scope: get_optional(operand(scope), field)
    return lambda scope: get_field(operand(scope), field)


def _has(value: Any, field: str) -> bool:
    if isinstance(value, dict):
        found = value.get(field, _MISSING)
        # A field that is null counts as absent; a key of a map does not.
        return found is not _MISSING and not (found is None and isinstance(value, SchemaObject))
    if isinstance(value, Optional):
        return value.present and _has(value.value, field)
    if isinstance(value, list):
        raise no_such_overload()
    return False  # neither null nor a scalar has any field


def _index(node: ast.Index) -> Code:
    operand, index = compile_node(node.operand), compile_node(node.index)
    get = get_optional if node.optional else get_item
    return lambda scope: get(operand(scope), index(scope))


def _list(node: ast.ListLiteral) -> Code:
    items = [compile_node(item) for item in node.items]
    if not any(node.optional):
        return lambda scope: [item(scope) for item in items]
    marked = list(zip(items, node.optional, strict=True))

    def build(scope: EvaluationScope) -> list[Any]:
        result: list[Any] = []
        for item, optional in marked:
            value = item(scope)
            if not optional:
                result.append(value)
            elif not isinstance(value, Optional):
                raise CelError(f"cannot initialize optional list element from non-optional value {value}")
            elif value.present:
                result.append(value.value)
        return result

    return build


def _message(node: ast.MessageLiteral) -> Code:
    fields = [(name, compile_node(value)) for name, value in zip(node.fields, node.values, strict=True)]

    def build(scope: EvaluationScope) -> SchemaObject:
        scope.spend(len(fields))
        built = SchemaObject()
        built.update((name, code(scope)) for name, code in fields)
        return built

    return build


def _map(node: ast.MapLiteral) -> Code:
    keys, values = map(compile_node, node.keys), map(compile_node, node.values)
    entries = list(zip(keys, values, node.optional, strict=True))

    def build(scope: EvaluationScope) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_code, value_code, optional in entries:
            key, value = to_key(key_code(scope)), value_code(scope)
            if optional:
                if not isinstance(value, Optional):
                    raise CelError(f"cannot initialize optional entry '{key}' from non-optional")
                if not value.present:
                    continue
                value = value.value
            result[key] = value
        return result

    return build


def _call(node: ast.FunctionCall) -> Code:
    if node.target is None and node.function in _SPECIAL:
        return _SPECIAL[node.function]([compile_node(arg) for arg in node.args])
    target = node.target
    if target is not None and (dotted := f"{qualified(target)}.{node.function}") in FUNCTIONS:
        return _dispatch(dotted, [compile_node(arg) for arg in node.args], receiver=False)
    args = [compile_node(arg) for arg in node.args]
    if target is None:
        return _dispatch(node.function, args, receiver=False)
    if node.function in ("or", "orValue") and len(args) == 1:
        return _optional_or(compile_node(target), args[0], unwrap=node.function == "orValue")
    return _dispatch(node.function, [compile_node(target), *args], receiver=True)


def _dispatch(name: str, args: list[Code], *, receiver: bool) -> Code:
    dispatcher = Dispatcher(FUNCTIONS.get(name, ()), receiver=receiver, count=len(args))

    def call(scope: EvaluationScope) -> Any:
        values = tuple([arg(scope) for arg in args])
        overload = dispatcher.find(values)
        product = overload.product or (bool(values) and isinstance(values[0], SetList))
        scope.spend(size_cost(values, product=product))
        result = overload.call(*values)
        if type(result) is str or type(result) is list:
            scope.spend(len(result) // 10)
        return result

    return call


def _optional_or(first: Code, second: Code, *, unwrap: bool) -> Code:
    def choose(scope: EvaluationScope) -> Any:
        value = first(scope)
        if not isinstance(value, Optional):
            return value  # a value that is no optional is there, as cel-go has it
        if value.present:
            return value.value if unwrap else value
        return second(scope)

    return choose


def _logical(decisive: bool) -> Callable[[list[Code]], Code]:
    def build(args: list[Code]) -> Code:
        return lambda scope: _decide(scope, args, decisive=decisive)

    return build


def _decide(scope: EvaluationScope, args: list[Code], *, decisive: bool) -> bool:
    """Evaluate && or ||: one decisive operand settles it, whatever errors the others have."""
    failure: CelError | None = None
    for arg in args:
        try:
            value = arg(scope)
        except CostExceeded:
            raise
        except CelError as error:
            failure = failure or error
            continue
        if not isinstance(value, bool):
            failure = failure or no_such_overload()
        elif value == decisive:
            return decisive
    if failure is not None:
        raise failure
    return not decisive


def _conditional(args: list[Code]) -> Code:
    condition, chosen, otherwise = args

    def choose(scope: EvaluationScope) -> Any:
        value = condition(scope)
        if not isinstance(value, bool):
            raise no_such_overload()
        return chosen(scope) if value else otherwise(scope)

    return choose


def _binary(compute: Callable[[Any, Any], bool]) -> Callable[[list[Code]], Code]:
    def build(args: list[Code]) -> Code:
        left, right = args

        def run(scope: EvaluationScope) -> bool:
            first, second = left(scope), right(scope)
            scope.spend(size_cost((first, second), product=isinstance(first, SetList)))
            return compute(first, second)

        return run

    return build


def _is_in(item: Any, container: Any) -> bool:
    if isinstance(container, list):
        return contains(container, item)
    if isinstance(container, dict):
        return kind_of(item) in ("bool", "int", "uint", "string", "double") and to_key(item) in container
    raise no_such_overload()


_SPECIAL: dict[str, Callable[[list[Code]], Code]] = {
    "_&&_": _logical(False),
    "_||_": _logical(True),
    "_?_:_": _conditional,
    "_==_": _binary(equal),
    "_!=_": _binary(lambda left, right: not equal(left, right)),
    "_<_": _binary(lambda left, right: compare(left, right) < 0),
    "_<=_": _binary(lambda left, right: compare(left, right) <= 0),
    "_>_": _binary(lambda left, right: compare(left, right) > 0),
    "_>=_": _binary(lambda left, right: compare(left, right) >= 0),
    "@in": _binary(_is_in),
}
