"""The macros that loop: all, exists, map, filter and their kin, compiled to closures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nodemanager.kube.cel.ast import AstNode, Macro, size
from nodemanager.kube.cel.errors import CelError, CostExceeded, no_such_overload
from nodemanager.kube.cel.lib.lists import sort_by
from nodemanager.kube.cel.scope import Code, EvaluationScope
from nodemanager.kube.cel.values import NONE, Optional, keys_of, to_key

_MISSING = object()
Rows = Iterator[None]
Body = Callable[[EvaluationScope, Rows], Any]


def compile_macro(node: Macro, compile_node: Callable[[AstNode], Code]) -> Code:
    """Return what runs a macro."""
    target = compile_node(node.target)
    args = [compile_node(arg) for arg in node.args]
    if node.name in ("optMap", "optFlatMap"):
        return _optional(target, node.variables[0], args[0], wrap=node.name == "optMap")
    body = _BODIES[node.name](args, node.variables)
    steps = 1 + sum(size(arg) for arg in node.args)

    def run(scope: EvaluationScope) -> Any:
        container = target(scope)
        saved = [scope.variables.get(name, _MISSING) for name in node.variables]
        try:
            return body(scope, _rows(scope, container, node.variables, steps))
        finally:
            _restore(scope, node.variables, saved)

    return run


def _restore(scope: EvaluationScope, names: tuple[str, ...], saved: list[Any]) -> None:
    for name, value in zip(names, saved, strict=True):
        if value is _MISSING:
            scope.variables.pop(name, None)
        else:
            scope.variables[name] = value


def _rows(scope: EvaluationScope, container: Any, names: tuple[str, ...], steps: int) -> Rows:
    """Bind the variables to one item after the other; what the loop body costs is spent here."""
    variables = scope.variables
    if not isinstance(container, list | dict):
        raise no_such_overload()
    if len(names) == 1:
        for item in container if isinstance(container, list) else keys_of(container):
            scope.spend(steps)
            variables[names[0]] = item
            yield
        return
    pairs: Iterable[tuple[Any, Any]] = enumerate(container)
    if isinstance(container, dict):
        pairs = zip(keys_of(container), container.values(), strict=True)
    for key, value in pairs:
        scope.spend(steps)
        variables[names[0]], variables[names[1]] = key, value
        yield


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise no_such_overload()
    return value


def _quantifier(decisive: bool) -> Callable[[list[Code], tuple[str, ...]], Body]:
    def build(args: list[Code], _names: tuple[str, ...]) -> Body:
        predicate = args[0]

        def run(scope: EvaluationScope, rows: Rows) -> bool:
            failure: CelError | None = None
            for _ in rows:
                try:
                    if _truth(predicate(scope)) is decisive:
                        return decisive
                except CostExceeded:
                    raise
                except CelError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not decisive

        return run

    return build


def _exists_one(args: list[Code], _names: tuple[str, ...]) -> Body:
    predicate = args[0]
    return lambda scope, rows: sum(_truth(predicate(scope)) for _ in rows) == 1


def _map(args: list[Code], _names: tuple[str, ...]) -> Body:
    transform = args[-1]
    if len(args) == 1:
        return lambda scope, rows: [transform(scope) for _ in rows]
    predicate = args[0]
    return lambda scope, rows: [transform(scope) for _ in rows if _truth(predicate(scope))]


def _filter(args: list[Code], names: tuple[str, ...]) -> Body:
    predicate, name = args[0], names[0]
    return lambda scope, rows: [scope.variables[name] for _ in rows if _truth(predicate(scope))]


def _transform_map(args: list[Code], names: tuple[str, ...]) -> Body:
    transform, key = args[-1], names[0]
    predicate = args[0] if len(args) == 2 else None

    def run(scope: EvaluationScope, rows: Rows) -> dict[Any, Any]:
        return {
            to_key(scope.variables[key]): transform(scope)
            for _ in rows
            if predicate is None or _truth(predicate(scope))
        }

    return run


def _transform_entries(args: list[Code], _names: tuple[str, ...]) -> Body:
    transform = args[-1]
    predicate = args[0] if len(args) == 2 else None

    def run(scope: EvaluationScope, rows: Rows) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for _ in rows:
            if predicate is not None and not _truth(predicate(scope)):
                continue
            entries = transform(scope)
            if not isinstance(entries, dict):
                raise no_such_overload()
            for key, value in entries.items():
                if key in result:
                    raise CelError(f"insert failed: key {key} already exists")
                result[key] = value
        return result

    return run


def _sort_by(args: list[Code], names: tuple[str, ...]) -> Body:
    key, name = args[0], names[0]

    def run(scope: EvaluationScope, rows: Rows) -> list[Any]:
        pairs = [(scope.variables[name], key(scope)) for _ in rows]
        return sort_by([item for item, _ in pairs], [each for _, each in pairs])

    return run


def _optional(target: Code, name: str, transform: Code, *, wrap: bool) -> Code:
    def run(scope: EvaluationScope) -> Any:
        value = target(scope)
        if not isinstance(value, Optional):
            raise no_such_overload()
        if not value.present:
            return NONE
        saved = [scope.variables.get(name, _MISSING)]
        scope.variables[name] = value.value
        try:
            result = transform(scope)
        finally:
            _restore(scope, (name,), saved)
        return Optional(True, result) if wrap else result

    return run


_BODIES: dict[str, Callable[[list[Code], tuple[str, ...]], Body]] = {
    "all": _quantifier(False),
    "exists": _quantifier(True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "map": _map,
    "filter": _filter,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
    "sortBy": _sort_by,
}
