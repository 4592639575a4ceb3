"""The JSONPath that printer columns use: fields, quoted fields, indexes, wildcards and one filter."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MAX_PATH = 2048
_STEP = re.compile(
    r"""\.?\[\?\(\s*@(?P<left>(?:\.[\w\\./-]+)+)\s*(?P<operator>==|!=)\s*(?P<right>"[^"]*"|'[^']*'|[-\w.]+)\s*\)\]
      | \.?\[(?P<index>-?\d{1,9})\]
      | \.?\[(?P<all>\*)\] | \.(?P<each>\*)
      | \.?\[(?P<quoted>'[^']*'|"[^"]*")\]
      | \.(?P<field>(?:\\.|[^.\[\]\\])+)""",
    re.VERBOSE,
)

Finder = Callable[[list[Any]], list[Any]]


class PathError(ValueError):
    """A path that we do not understand."""


@lru_cache(maxsize=4096)
def compile_path(path: str) -> tuple[Finder, ...]:
    """Return the steps of a path such as `.status.conditions[?(@.type=="Ready")].status`."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if len(path) > MAX_PATH or not text.startswith((".", "[")):
        raise PathError(f"cannot read JSONPath {path[:80]!r}: it must start with a dot")
    steps, position = [], 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise PathError(f"cannot read JSONPath {path[:80]!r}: at {text[position:][:40]!r}")
        steps.append(_finder(found))
        position = found.end()
    return tuple(steps)


def find(obj: Any, path: str) -> list[Any]:
    """Return every value at a path; none where the path leads nowhere."""
    values = [obj]
    for step in compile_path(path):
        values = step(values)
    return values


def _finder(found: re.Match[str]) -> Finder:
    if found["left"]:
        return _filter(found["left"], found["operator"] == "==", found["right"])
    if found["index"]:
        index = int(found["index"])
        return lambda values: [
            value[index] for value in values if isinstance(value, list) and -len(value) <= index < len(value)
        ]
    if found["all"] or found["each"]:
        return lambda values: [item for value in values for item in _children(value)]
    name = found["quoted"][1:-1] if found["quoted"] else re.sub(r"\\(.)", r"\1", found["field"])
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _filter(left: str, equal: bool, right: str) -> Finder:
    wanted: Any = right[1:-1] if right[:1] in "\"'" else _literal(right)

    def chosen(item: Any) -> bool:
        found = find(item, left)
        return bool(found) and (found[0] == wanted) is equal

    return lambda values: [item for value in values for item in _children(value) if chosen(item)]


def _children(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return list(value.values()) if isinstance(value, dict) else []


def _literal(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
