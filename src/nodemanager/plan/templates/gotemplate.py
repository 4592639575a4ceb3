"""Go templates with gomplate's functions, on top of gotpl; imported with the first such template."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import gotpl

from nodemanager.plan.templates.budget import (
    CALLS_MAX,
    CURRENT,
    DEPTH_MAX,
    LOOPS_MAX,
    OUTPUT_MAX,
    Blank,
    Scope,
    compiled_once,
)
from nodemanager.plan.templates.errors import FunctionError, TemplateError
from nodemanager.plan.templates.functions.library import unknown
from nodemanager.plan.templates.functions.registry import FUNCTIONS
from nodemanager.plan.templates.rewriting import function_name, readable, rewrite

_NAMES: Final = {function_name(name): function for name, function in FUNCTIONS.items()}
_POLICY: Final = gotpl.SandboxPolicy.strict(
    allow_functions=_NAMES,
    allow_custom_lookup=True,
    max_template_chars=2 * OUTPUT_MAX,
    default_budget=gotpl.ExecutionBudget(
        max_output_chars=OUTPUT_MAX,
        max_iterations=LOOPS_MAX,
        max_template_depth=DEPTH_MAX,
        max_function_calls=CALLS_MAX,
    ),
)
_ENVIRONMENT: Final = gotpl.Environment(functions=_NAMES, missing_key="error", sandbox=_POLICY)
_CALL = re.compile(r"\Afunction '\S+' failed: (?=argument )")
_PLACE = re.compile(r"\Atemplate:\d+:\d+: ")
_UNDEFINED = re.compile(r"\Afunction '(?P<name>[^']*)' (?:is )?not defined\Z")
_MISSING = re.compile(r"\Amissing key or attribute '(?P<name>\w+)'\Z")
_NO_FIELD = re.compile(r"\A(?:attribute|method|property) '(?P<name>\w+)' is not allowed\Z")
_NO_LIST: Final = f"range cannot iterate over {Blank.__name__}"
_SAFE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"wrong number of args for \S+: want [\w ]+ got \d+",
        r"argument \d+ to \S+: expected [\w |]+, got \w+",
        r"[a-z -]+ budget exceeded: limit \d+, requested \d+",
        r"undefined variable '\S+'",
        r"template '[^']*' is not defined",
        r"nil is not a command",
        r"non-callable command has arguments",
        r"range cannot iterate over \w+",
        r"function '\S+' requires an argument",
        r"function '\S+' failed: argument \d+ to \S+: expected [\w |]+, got \w+",
        r"function '\S+' failed: (?:[a-z ]+|value of type \w+ has no length|(?:eq|ne) requires [a-z ]+)",
        r"exceeded maximum template depth \(\d+\)",
    )
)
"""Messages of gotpl whose words come from the template alone; all others might repeat data."""


def render(text: str, scope: Scope, name: str) -> str:
    """Render a Go template with the root of the data as its context."""
    scope.source = text
    return _run(lambda: compiled(text), scope.root, scope, lambda why, line: TemplateError(name, why, line))


def parse(text: str, name: str) -> None:
    """Read a Go template; raise TemplateError if that cannot be done."""
    try:
        compiled(text)
    except gotpl.TemplateSyntaxError as error:
        raise TemplateError(name, _syntax(error), error.line, _column(text, error)) from None
    except RecursionError:
        raise TemplateError(name, "it is nested too deeply") from None
    except gotpl.TemplateError:
        raise TemplateError(name, "the template cannot be used") from None


def _column(text: str, error: gotpl.TemplateSyntaxError) -> int | None:
    """Return the column of an error, unless something was put in before it for the library."""
    before = error.column - 1
    ours, theirs = (source.split("\n")[error.line - 1][:before] for source in (text, rewrite(text)))
    return error.column if ours == readable(theirs) else None


def nested(source: str, context: Any, scope: Scope, what: str) -> str:
    """Render a template that another one made, with the definitions of the outer one at hand.

    Its source may be data, so errors in it are reported without quoting it.
    """

    def fault(_why: str, line: int | None) -> FunctionError:
        return FunctionError(f"{what} fails" + ("" if line is None else f" in its line {line}"))

    def template() -> gotpl.Template:
        return gotpl.Template.from_sources(
            {"inline": rewrite(source), "outer": rewrite(scope.source)},
            functions=_ENVIRONMENT.functions,
            missing_key="error",
            sandbox=_POLICY,
        )

    return _run(template, context, scope, fault)


@compiled_once
def compiled(text: str) -> gotpl.Template:
    """Return the compiled template."""
    return _ENVIRONMENT.from_string(rewrite(text))


def _run(
    template: Callable[[], gotpl.Template],
    context: Any,
    scope: Scope,
    fault: Callable[[str, int | None], Exception],
) -> str:
    token = CURRENT.set(scope)
    try:
        return template().render(context)
    except gotpl.TemplateSyntaxError as error:
        raise fault(_syntax(error), error.line) from None
    except gotpl.TemplateExecutionError as error:
        raise fault(_execution(error), error.line) from None
    except FunctionError as error:
        raise fault(str(error), None) from None
    except RecursionError:
        raise fault("it is nested too deeply", None) from None
    except gotpl.TemplateError:
        raise fault("the template cannot be used", None) from None
    finally:
        CURRENT.reset(token)


def _syntax(error: gotpl.TemplateSyntaxError) -> str:
    message = readable(_PLACE.sub("", str(error)))
    undefined = _UNDEFINED.match(message)
    return unknown(undefined["name"]) if undefined else message


def _execution(error: gotpl.TemplateExecutionError) -> str:
    if isinstance(error.__cause__, FunctionError):
        return str(error.__cause__)
    message = readable(error.message)
    if undefined := _UNDEFINED.match(message):
        return unknown(undefined["name"])
    if missing := _MISSING.match(message):
        name = missing["name"]
        return f'there is no .{name} here; where it may be missing, write (index X "{name}" | default "...")'
    if no_field := _NO_FIELD.match(message):
        return f"the value before .{no_field['name']} is no map, so it has no fields"
    if message == _NO_LIST:
        return "range needs a list, and the key is missing; add: | default (coll.Slice)"
    if any(pattern.fullmatch(message) for pattern in _SAFE):
        return _CALL.sub("", message)
    return "the action failed"
