"""Functions with their signatures: one table serves the checker and the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.types import FunctionSignature, parse_signature
from nodemanager.kube.cel.values import kind_of

Implementation = Callable[..., Any]


class Overload(NamedTuple):
    """One signature of a function, what it does, and whether its work is the product of its arguments."""

    signature: FunctionSignature
    call: Implementation
    product: bool = False


class Library:
    """Functions by name."""

    def __init__(self, *others: Library) -> None:
        self.functions: dict[str, list[Overload]] = {}
        for other in others:
            for name, overloads in other.functions.items():
                self.functions.setdefault(name, []).extend(overloads)

    def add(
        self, name: str, *signatures: str, product: bool = False
    ) -> Callable[[Implementation], Implementation]:
        """Return a decorator that offers a Python function under a name, with these signatures."""

        def offer(call: Implementation) -> Implementation:
            for signature in signatures:
                overload = Overload(parse_signature(signature), call, product)
                self.functions.setdefault(name, []).append(overload)
            return call

        return offer

    def add_parsing(self, name: str, check: str, type_name: str, parse: Callable[[str], Any]) -> None:
        """Offer a function that reads a text as a type, and one that tells whether it can be read so."""
        self.add(name, f"(string) -> {type_name}")(parse)
        self.add(check, "(string) -> bool")(reads(parse))

    def add_order(self, type_name: str, rank: Callable[[Any], Any]) -> None:
        """Offer the functions that compare two values of a type by their ranks."""
        self.add("isGreaterThan", f"{type_name}.({type_name}) -> bool")(lambda a, b: rank(a) > rank(b))
        self.add("isLessThan", f"{type_name}.({type_name}) -> bool")(lambda a, b: rank(a) < rank(b))
        self.add("compareTo", f"{type_name}.({type_name}) -> int")(
            lambda a, b: (rank(a) > rank(b)) - (rank(a) < rank(b))
        )


def reads(parse: Callable[..., Any]) -> Callable[..., bool]:
    """Return a function that tells whether `parse` takes its arguments."""

    def check(*args: Any) -> bool:
        try:
            parse(*args)
        except CelError:
            return False
        return True

    return check


class Dispatcher:
    """One call in an expression: finds the overload for the types that arrive, and remembers it."""

    __slots__ = ("_known", "_overloads")

    def __init__(self, overloads: Iterable[Overload], *, receiver: bool, count: int) -> None:
        self._overloads = [
            each
            for each in overloads
            if each.signature.receiver == receiver and len(each.signature.params) == count
        ]
        self._known: dict[tuple[type, ...], Overload] = {}

    def find(self, args: tuple[Any, ...]) -> Overload:
        """Return the overload for these arguments; raise CelError when there is none."""
        types = tuple(map(type, args))
        found = self._known.get(types)
        if found is None:
            found = self._search(args)
            self._known[types] = found
        return found

    def _search(self, args: tuple[Any, ...]) -> Overload:
        kinds = [kind_of(arg) for arg in args]
        for overload in self._overloads:
            params = overload.signature.params
            if all(p.name in ("dyn", k) or p.is_parameter for p, k in zip(params, kinds, strict=True)):
                return overload
        raise CelError("no such overload")
