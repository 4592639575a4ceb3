"""Puts counters into Jinja2 templates as they are compiled.

Jinja2 offers no budget. What can grow without a call that the sandbox sees (loops, `~`, block
assignments, comparisons, parts of texts) is wrapped into a filter that counts.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jinja2 import TemplateSyntaxError, Undefined, nodes
from jinja2.runtime import TemplateReference
from jinja2.utils import Namespace

from nodemanager.plan.templates.budget import CURRENT, Entries, Items, weigh
from nodemanager.plan.templates.errors import FunctionError

_LOOP: Final = "nodemanager_loop"
_JOIN: Final = "nodemanager_join"
_WEIGH: Final = "nodemanager_weigh"
_REFUSED: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_ALONE: Final = "a template stands alone"


def _loop(values: Iterable[Any], cost: int) -> Iterator[Any]:
    meter = CURRENT.get().meter
    for value in values:
        meter.loop(cost)
        yield value


class _Counted(list[Any]):
    """A list that counts when it is walked over, so that `loop.length` works as ever."""

    def __init__(self, values: Iterable[Any], cost: int) -> None:
        super().__init__(values)
        self.cost = cost

    def __iter__(self) -> Iterator[Any]:
        return _loop(super().__iter__(), self.cost)


def _counted_loop(values: Any, cost: int) -> Any:
    if isinstance(values, (list, tuple, dict, range)):
        return _Counted(values, cost)
    return _loop(values, cost)


def check_text(value: Any) -> None:
    """Refuse to write out what is no data, alone or in a list: Python would print its own words for it.

    After `weigh`, which bounds the walk, but does not look into a namespace. Our data holds no such thing.
    """
    if isinstance(value, (str, int, float, Items, Entries, Undefined)):
        return
    if isinstance(value, (list, tuple, dict)):
        for part in itertools.chain(value, value.values()) if isinstance(value, dict) else value:
            check_text(part)
    elif callable(value):
        raise FunctionError("a function cannot be written out: call it with ()")
    elif isinstance(value, (Namespace, TemplateReference)):
        raise FunctionError("this is no value and cannot be written out: name one of its fields")


def not_none(value: Any) -> Any:
    """Return a value that is to be written; nothing has no text, where that is not asked for."""
    if value is not None:
        return value
    if CURRENT.get().lax:
        return ""
    raise FunctionError(
        "there is nothing to write, the value is none; where it may be, use default(..., true)"
    )


def _joined(parts: Iterable[Any]) -> str:
    meter = CURRENT.get().meter
    texts: list[str] = []
    for part in parts:
        meter.work(weigh(part))
        check_text(part)
        texts.append(str(not_none(part)))
    return str(meter.take("".join(texts)))


def _weighed(value: Any) -> Any:
    meter = CURRENT.get().meter
    meter.work(weigh(value))
    return meter.take(value) if isinstance(value, (str, int)) else value


COUNTING: Final[dict[str, Callable[..., Any]]] = {
    _LOOP: _counted_loop,
    _JOIN: _joined,
    _WEIGH: _weighed,
}


class counted:  # noqa: N801 - used as a decorator
    """A function that templates may call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the function does."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        raise FunctionError("a function cannot be written out: call it with ()")


class _Lazy:
    """What a filter yields as it is asked; it has no text, because Python would print an address."""

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = _loop(values, 0)

    def __iter__(self) -> Iterator[Any]:
        return self._values

    def __next__(self) -> Any:
        return next(self._values)

    def __repr__(self) -> str:
        raise FunctionError("the result of a filter that goes item by item has no text: add |list or |join")


def ticked(name: str, function: Callable[..., Any], *, text: bool) -> Callable[..., Any]:
    """Return a filter or test that counts what goes in and what comes out, and signs its errors.

    With `text` it may print its arguments, so those that cannot be printed are refused.
    """

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        meter = CURRENT.get().meter
        meter.call()
        meter.work(sum(map(weigh, args)) + sum(map(weigh, kwargs.values())))
        try:
            for each in args if text else ():
                check_text(each)
            result = function(*args, **kwargs)
        except FunctionError as error:
            raise type(error)(f"{name}: {error}") from None
        meter.work(weigh(result))
        return _Lazy(result) if isinstance(result, Iterator) else result

    return limited


def instrument(tree: nodes.Template) -> nodes.Template:
    """Return the tree with counters in it; raise TemplateSyntaxError for what needs other files."""
    for node in tree.find_all(_REFUSED):
        raise TemplateSyntaxError(f"{type(node).__name__.lower()} is not available: {_ALONE}", node.lineno)
    for loop in list(tree.find_all(nodes.For)):
        if loop.recursive:
            raise TemplateSyntaxError("recursive loops are not available: use a macro", loop.lineno)
        cost = sum(len(text.data) for text in loop.find_all(nodes.TemplateData))
        loop.iter = _filter(loop.iter, _LOOP, nodes.Const(cost, lineno=loop.lineno))
    for block in list(tree.find_all(nodes.AssignBlock)):
        block.filter = _filter(block.filter, _WEIGH, line=block.lineno)
    _replace(tree)
    return tree


def _filter(inner: nodes.Node | None, name: str, *args: nodes.Expr, line: int = 0) -> nodes.Filter:
    lineno = inner.lineno if inner is not None else line
    return nodes.Filter(inner, name, list(args), [], None, None, lineno=lineno)


def _replace(node: nodes.Node) -> None:
    """Put counters around joined texts, around what is compared, and around parts of texts."""
    for child in list(node.iter_child_nodes()):
        _replace(child)
    for name, value in list(node.iter_fields()):
        if isinstance(value, list):
            setattr(node, name, [_counter(each) for each in value])
        elif isinstance(value, nodes.Node):
            setattr(node, name, _counter(value))
    if isinstance(node, nodes.Pair):  # hashing it walks all of it, as often as it occurs in itself
        node.key = _filter(node.key, _WEIGH)
    if isinstance(node, nodes.Compare):
        node.expr = _filter(node.expr, _WEIGH)
        for operand in node.ops:
            operand.expr = _filter(operand.expr, _WEIGH)


def _counter(value: Any) -> Any:
    if isinstance(value, nodes.Concat):
        return _filter(nodes.List(value.nodes, lineno=value.lineno), _JOIN)
    if isinstance(value, nodes.Getitem) and isinstance(value.arg, nodes.Slice):
        return _filter(value, _WEIGH)
    return value
