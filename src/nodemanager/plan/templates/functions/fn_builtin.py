"""Go's own functions that make text, with a limit; the data source; and templates within templates."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from nodemanager.plan.templates.budget import CURRENT, DEPTH_MAX
from nodemanager.plan.templates.errors import FunctionError, TooMuch
from nodemanager.plan.templates.functions.registry import add, checked_size
from nodemanager.plan.templates.functions.values import as_bytes, printed

_WIDTH = re.compile(r"[0-9]{5,}|\*")
_JS: dict[str, str | int | None] = {
    **{chr(code): f"\\u{code:04X}" for code in range(0x20)},
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "<": "\\u003C",
    ">": "\\u003E",
    "&": "\\u0026",
    "=": "\\u003D",
}
_HTML: dict[str, str | int | None] = {
    "\x00": "\ufffd",
    '"': "&#34;",
    "'": "&#39;",
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")


@add("print")
def _print(*values: Any) -> str:
    """Print with a space between two values unless one is a text, as Go's `Sprint` does."""
    out: list[str] = []
    for place, each in enumerate(values):
        if place and not isinstance(each, str) and not isinstance(values[place - 1], str):
            out.append(" ")
        out.append(each if isinstance(each, str) else printed(each))
    return "".join(out)


@add("println")
def _println(*values: Any) -> str:
    return " ".join(each if isinstance(each, str) else printed(each) for each in values) + "\n"


@add("printf")
def _printf(format_text: str, *values: Any) -> str:
    from gotpl.runtime.gofmt import sprintf

    if _WIDTH.search(format_text):
        raise FunctionError("a width must be a number of at most four digits")
    checked_size(format_text.count("%") * 1000)
    return sprintf(format_text, *values)


def _joined(values: tuple[Any, ...]) -> str:
    joined = _print(*values)
    checked_size(len(joined) * 8)
    return joined


@add("html")
def _html(*values: Any) -> str:
    return _joined(values).translate(str.maketrans(_HTML))


@add("js")
def _js(*values: Any) -> str:
    return _joined(values).translate(str.maketrans(_JS))


@add("urlquery")
def _urlquery(*values: Any) -> str:
    return "".join(
        char if char in _UNRESERVED else "+" if char == " " else _percent(char) for char in _joined(values)
    )


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in as_bytes(char))


@add("ds", "datasource", deep=False)
def _datasource(name: str, *_path: Any) -> Any:
    if name != "data":
        raise FunctionError('there is one data source, "data": templates cannot read others')
    return CURRENT.get().root


@add("datasourceExists", "datasourceReachable", deep=False)
def _datasource_exists(name: str) -> bool:
    return name == "data"


@add("listDatasources", deep=False)
def _list_datasources() -> list[str]:
    return ["data"]


def _nested(source: str, context: tuple[Any, ...], what: str) -> str:
    from nodemanager.plan.templates.gotemplate import nested

    scope = CURRENT.get()
    if scope.depth >= DEPTH_MAX // 5:
        raise TooMuch("templates call each other too deeply")
    inner = replace(scope, depth=scope.depth + 1)
    return nested(source, context[0] if context else scope.root, inner, what)


@add("tmpl.Inline", "tpl", deep=False)
def _inline(*arguments: Any) -> str:
    match arguments:
        case (str() as source,):
            return _nested(source, (), "the inline template")
        case (str(), str() as source, context):
            return _nested(source, (context,), "the inline template")
        case (str() as source, context) if "{{" in source or not isinstance(context, str):
            return _nested(source, (context,), "the inline template")
        case (str(), str() as source):
            return _nested(source, (), "the inline template")
    raise FunctionError("it takes a name, if any, a template, and a context, if any")


@add("tmpl.Exec", deep=False)
def _exec(name: str, *context: Any) -> str:
    if '"' in name or "\\" in name or "\n" in name:
        raise FunctionError("the name of a template must be plain")
    return _nested(f'{{{{template "{name}" .}}}}', context, "the template")


@add("len", deep=False)
def _len(value: Any) -> int:
    if isinstance(value, str):
        return len(as_bytes(value))
    if isinstance(value, (bytes, list, dict)):
        return len(value)
    raise FunctionError("only texts, lists and maps have a length")
