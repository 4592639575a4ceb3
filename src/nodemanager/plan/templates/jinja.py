"""Jinja2 in a sandbox; imported with the first such template.

Jinja2's own sandbox keeps a template away from Python. What it does not do is count: loops,
calls, filters and joined texts all go through the meter here (see `jinja_counting`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nodemanager.plan.templates.budget import CURRENT, OUTPUT_MAX, Scope, compiled_once, missing, weigh
from nodemanager.plan.templates.errors import NOT_TEXT, FunctionError, TemplateError, TooMuch
from nodemanager.plan.templates.jinja_counting import (
    COUNTING,
    check_text,
    counted,
    instrument,
    not_none,
    ticked,
)
from nodemanager.plan.templates.jinja_filters import FILTERS, GLOBALS, METHODS, tests
from nodemanager.plan.templates.shapes import DefinedFields

_HINT: Final = "where it may be missing, use the filter default(...)"
_MARK: Final = re.compile(r"\{[{%#]")
_PASSING: Final = ("d", "default")
"""Filters that hand on what they are given, also a macro."""
_FAULTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""Errors of Python on behalf of a template; their text may hold data, so only the type is reported."""


class _MissingKeyError(jinja2.UndefinedError):
    """A key that is not there was used; its words are ours."""


class _Missing(jinja2.StrictUndefined):
    """A key that a map does not have: false, and all that is in it is missing, too; any other use fails."""

    __slots__ = ()

    def __bool__(self) -> bool:  # type: ignore[override] # the one thing in which it is not so strict
        return False


_CHAINED: Final = (_Missing, jinja2.ChainableUndefined)


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox: data by field name in any case, a short list of methods, everything counted."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def _parse(self, source: str, name: str | None, filename: str | None) -> Any:
        return instrument(super()._parse(source, name, filename))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look up a field; methods exist only where METHODS lists them."""
        method = METHODS.get(attribute)
        if method is not None and isinstance(obj, method.kinds):
            return method.bound(obj)
        found = self._field(obj, attribute)
        if found is not self:
            return found
        if attribute.startswith("_") or not _own(obj, attribute):
            return self._nothing(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Look up an element or a field."""
        if isinstance(argument, str):
            found = self._field(obj, argument)
            return self._nothing(obj, argument) if found is self else found
        if isinstance(obj, _CHAINED):
            return obj
        CURRENT.get().meter.work(weigh(argument))
        return super().getitem(obj, argument)

    def _field(self, obj: Any, name: str) -> Any:
        """Return a field of a map, or the environment itself for want of one."""
        if isinstance(obj, DefinedFields):
            try:
                return obj.find(name)
            except KeyError:
                return self
        return obj.get(name, self) if isinstance(obj, dict) else self

    def _nothing(self, obj: Any, name: str) -> jinja2.Undefined:
        """Return what stands for something that is not there; where nothing else may be, that is an error."""
        if isinstance(obj, _CHAINED):
            return obj
        if isinstance(obj, DefinedFields) or not (obj is None or isinstance(obj, dict)):
            return self.undefined(name=_shown(name))
        if CURRENT.get().lax:
            return jinja2.ChainableUndefined(name=_shown(name))
        why = f"{missing(name, getattr(obj, 'title', 'here'))}; {_HINT}"
        return _Missing(hint=why, exc=_MissingKeyError)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Calculate, with a limit on what comes out."""
        CURRENT.get().meter.work(weigh(left) + weigh(right))
        if operator == "%" and isinstance(left, str):
            raise FunctionError("% does not format texts here: use ~ or the filters")
        if operator == "**" and abs(right) > 64:
            raise TooMuch("an exponent is greater than 64")
        if operator == "*" and any(isinstance(each, (str, list, tuple)) for each in (left, right)):
            count = next((each for each in (left, right) if isinstance(each, int)), 0)
            CURRENT.get().meter.work((weigh(left) + weigh(right)) * max(count, 0))
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and abs(result) >= 2**63:
            raise FunctionError("a number needs more than 64 bits")
        return result

    def is_safe_callable(self, obj: Any) -> bool:
        """Allow our own functions, Jinja2's macros and loop helpers, and nothing else."""
        module = getattr(type(obj), "__module__", "")
        return isinstance(obj, (counted, jinja2.Undefined)) or module == "jinja2.runtime" or _loop_method(obj)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro or function, counted before and after."""
        meter = CURRENT.get().meter
        meter.call()
        meter.work(weigh(args) + weigh(kwargs))
        result = super().call(context, obj, *args, **kwargs)
        meter.work(weigh(result))
        return result


def _own(obj: Any, attribute: str) -> bool:
    """Tell whether Jinja2 itself made the object: `loop`, `cycler`, `namespace` and their like."""
    return type(obj).__module__.startswith("jinja2.") and not attribute.startswith("_")


def _loop_method(obj: Any) -> bool:
    owner = getattr(obj, "__self__", None)
    return owner is not None and type(owner).__module__ == "jinja2.runtime"


def _shown(name: str) -> str:
    """Return a key for an error text if the template itself may have spelled it."""
    return name if name.isidentifier() and name in CURRENT.get().source else "(a key)"


def _finalize(value: Any) -> Any:
    """Count every value that is written."""
    CURRENT.get().meter.work(weigh(value))
    check_text(value)
    return not_none(value)


def _environment() -> _Environment:
    environment = _Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        finalize=_finalize,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        cache_size=0,
        optimized=False,
    )
    environment.filters = {**_limited(FILTERS, text=True), **COUNTING}
    environment.tests = _limited(tests(), text=False)
    environment.globals = dict(GLOBALS)
    return environment


def _limited(functions: Mapping[str, Callable[..., Any]], *, text: bool) -> dict[str, Any]:
    return {
        name: ticked(name, function, text=text and name not in _PASSING)
        for name, function in functions.items()
    }


_ENVIRONMENT: Final = _environment()


@compiled_once
def compiled(text: str) -> jinja2.Template:
    """Return the compiled template."""
    return _ENVIRONMENT.from_string(text)


def render(text: str, scope: Scope, name: str) -> str:
    """Render a Jinja2 template; it sees Node, Nodes and Data, also in lower case."""
    scope.source = text
    token = CURRENT.set(scope)
    try:
        return _output(compiled(text), scope)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(name, _syntax(error), error.lineno) from None
    except SecurityError as error:
        raise TemplateError(name, f"not allowed in templates{_about(error)}", _line(error)) from None
    except jinja2.UndefinedError as error:
        raise TemplateError(name, _undefined(error), _line(error)) from None
    except FunctionError as error:
        raise TemplateError(name, str(error), _line(error)) from None
    except jinja2.TemplateError as error:
        raise TemplateError(
            name, "a filter or function cannot work with its arguments", _line(error)
        ) from None
    except (RecursionError, MemoryError):
        raise TemplateError(name, "it is nested too deeply") from None
    except UnicodeError as error:
        raise TemplateError(name, NOT_TEXT, _line(error)) from None
    except _FAULTS as error:
        why = f"the template failed with {type(error).__name__}"
        raise TemplateError(name, why, _line(error)) from None
    finally:
        CURRENT.reset(token)


def parse(text: str, name: str) -> None:
    """Read a Jinja2 template; raise TemplateError if that cannot be done."""
    try:
        compiled(text)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(name, _syntax(error), error.lineno, _column(text, error.lineno)) from None
    except (RecursionError, MemoryError):
        raise TemplateError(name, "it is nested too deeply") from None
    except (jinja2.TemplateError, *_FAULTS) as error:
        raise TemplateError(name, f"the template failed with {type(error).__name__}") from None


def _column(text: str, line: int) -> int | None:
    """Return where the tag begins that a line has; Jinja2 tells the line only, which may have several."""
    marks = [found.start() + 1 for found in _MARK.finditer((text.split("\n")[line - 1 :] or [""])[0])]
    return marks[0] if len(marks) == 1 else None


def _output(template: jinja2.Template, scope: Scope) -> str:
    node, nodes, data = scope.root["Node"], scope.root["Nodes"], scope.root.find("Data")
    out: list[str] = []
    length = 0
    seen = {"Node": node, "node": node, "Nodes": nodes, "nodes": nodes, "Data": data, "data": data}
    for part in template.generate(seen):
        out.append(part)
        length += len(part)
        if length > OUTPUT_MAX:
            raise TooMuch(f"the output is longer than {OUTPUT_MAX} characters")
    return "".join(out)


def _line(error: BaseException) -> int | None:
    """Return the line of the template that failed."""
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if "__jinja_exception__" in trace.tb_frame.f_globals:  # frames that Jinja2 put in for the template
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _syntax(error: jinja2.TemplateSyntaxError) -> str:
    message = (error.message or "syntax error").removesuffix(".")
    if message.startswith("No filter named"):
        return f"{message}; there are: {', '.join(sorted(FILTERS))}"
    if message.startswith("No test named"):
        return f"{message}; there are: {', '.join(sorted(_ENVIRONMENT.tests))}"
    return message


def _undefined(error: jinja2.UndefinedError) -> str:
    """Say which name is undefined; Jinja2 names it between quotes and never prints a value we gave it."""
    message = error.message or ""
    if isinstance(error, _MissingKeyError):
        return message
    name = message.split("'")[1] if message.count("'") >= 2 else ""
    if name and name in CURRENT.get().source:
        return f"there is no {name} here; {_HINT}"
    return "something in the template is undefined"


def _about(error: SecurityError) -> str:
    message = error.message or ""
    name = message.split("'")[1] if message.count("'") >= 2 else ""
    return f": {name}" if name and name in CURRENT.get().source else ""
