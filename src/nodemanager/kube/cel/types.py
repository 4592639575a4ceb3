"""The types of CEL as the checker sees them, and the signatures of functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Type:
    """A type: a name, the types it is made of, and the fields where it is an object of a schema."""

    name: str
    args: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return the type as the error messages of cel-go write it."""
        if self.args:
            return f"{self.name}({', '.join(str(each) for each in self.args)})"
        return self.name

    @property
    def is_parameter(self) -> bool:
        """Whether this stands for any type, the same one wherever it appears in a signature."""
        return len(self.name) == 1


DYN = Type("dyn")
BOOL = Type("bool")
INT = Type("int")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null")
TIMESTAMP = Type("timestamp")
DURATION = Type("duration")

_WORD = re.compile(r"\s*([A-Za-z_.]+|[<>,])")
_SIGNATURE = re.compile(r"(?:(?P<receiver>[^(]*)\.)?\((?P<params>.*)\) -> (?P<result>.*)")


def list_of(item: Type) -> Type:
    """Return the type of lists of such items."""
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps from such keys to such values."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of optional values."""
    return Type("optional_type", (value,))


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """What a function takes, its receiver first, and what it returns."""

    receiver: bool
    params: tuple[Type, ...]
    result: Type


def parse_signature(text: str) -> FunctionSignature:
    """Read a signature such as `list<A>.(A, int) -> int`."""
    found = _SIGNATURE.fullmatch(text)
    if found is None:
        raise ValueError(f"cannot read the signature {text!r}: it has no arrow or no parentheses")
    receiver = found["receiver"]
    params = _parse_types(found["params"])
    if receiver is not None:
        params = (*_parse_types(receiver), *params)
    return FunctionSignature(receiver is not None, params, _parse_types(found["result"])[0])


def _parse_types(text: str) -> tuple[Type, ...]:
    words = _WORD.findall(text)
    types, rest = _type_list(words)
    if rest:
        raise ValueError(f"cannot read the types {text!r}: {rest[0]!r} is not expected")
    return types


def _type_list(words: list[str]) -> tuple[tuple[Type, ...], list[str]]:
    types: list[Type] = []
    while words and words[0] != ">":
        name, words = words[0], words[1:]
        args: tuple[Type, ...] = ()
        if words and words[0] == "<":
            args, words = _type_list(words[1:])
            words = words[1:]
        types.append(Type(name, args))
        if words and words[0] == ",":
            words = words[1:]
    return tuple(types), words


def unify(param: Type, actual: Type, bound: dict[str, Type]) -> bool:
    """Tell whether a value of one type may be given for a parameter; remember type parameters."""
    if param.is_parameter:
        if param.name in bound and bound[param.name] != DYN:
            return unify(bound[param.name], actual, bound)
        bound[param.name] = actual
        return True
    if DYN in (param, actual) or actual.is_parameter:
        return True
    if param.name != actual.name:
        return actual == NULL and (param.name in _NULLABLE or param.fields is not None)
    if len(param.args) != len(actual.args) or param.name == "type":
        return True  # a bare `list` or `type` takes all of them
    return all(unify(mine, theirs, bound) for mine, theirs in zip(param.args, actual.args, strict=True))


_NULLABLE = frozenset({"timestamp", "duration"})


def substitute(type_: Type, bound: Mapping[str, Type]) -> Type:
    """Return a type with its parameters replaced by what they were bound to."""
    if type_.is_parameter:
        return bound.get(type_.name, DYN)
    if not type_.args:
        return type_
    return Type(type_.name, tuple(substitute(each, bound) for each in type_.args))


def join(first: Type, second: Type) -> Type | None:
    """Return the type that holds values of both, or None if they have none in common."""
    if DYN in (first, second):
        return DYN
    if unify(first, second, {}):
        return first
    return second if unify(second, first, {}) else None
