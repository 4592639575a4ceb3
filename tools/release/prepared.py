"""What Python would compile anew at every start of the static program, compiled when it is built.

Dataclasses and named tuples compile text that they write, msgspec compiles the annotations of types that it
decodes, and modules compile regular expressions. boot.py has them done by this module, which takes what
recording.py found from the table of the program, and leaves to Python what is not there. Part of the program,
as the module `prepared`.
"""

import sys
from _imp import source_hash
from marshal import loads

import _packed  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

_KEY = 0x6E6F6465
HAS_EXPRESSIONS = sys.maxsize > 2**32
"""Programs of regular expressions are those of 64 bits; elsewhere a repetition ends at another number."""


def name_of(kind: str, text: "str | bytes") -> str:
    """Return what is found under the digest of a text: 64 bits, and the length."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return f"{kind}:{len(data):x}:{source_hash(_KEY, data).hex()}"


def name_of_expression(pattern: "str | bytes", flags: int) -> str:
    """Return what the program of an expression is called."""
    return name_of(f"{type(pattern).__name__}{flags:x}", pattern)


def code(kind: str, text: str) -> "str | CodeType":
    """Return a text compiled, if it was, or as it is."""
    name = name_of(kind, text)
    if _packed.find(name) is None:
        return text
    found: CodeType = loads(_packed.read(name))  # noqa: S302 - it is part of the program
    return found


def execute(text: str, globals_: "dict[str, Any]", locals_: "dict[str, Any]") -> None:
    """Do what exec does."""
    exec(code("exec", text), globals_, locals_)  # noqa: S102 - what dataclasses would have done


def evaluate(text: str, globals_: "dict[str, Any]") -> object:
    """Do what eval does."""
    return eval(code("eval", text), globals_)  # noqa: S307 - what namedtuple would have done


def compiler(usual: "Callable[[Any, int], object]") -> "Callable[..., object]":
    """Return what compiles a regular expression, or takes it from the table."""
    import _sre  # type: ignore[import-not-found]

    def compile_expression(pattern: "Any", flags: int = 0) -> object:
        if isinstance(pattern, (str, bytes)):
            name = name_of_expression(pattern, flags)
            if _packed.find(name) is not None:
                arguments = loads(_packed.read(name))  # noqa: S302 - it is part of the program
                if arguments[0] == pattern:
                    return _sre.compile(*arguments)
        return usual(pattern, flags)

    return compile_expression


class Hint(str):
    """The name of an annotation in the table."""

    __slots__ = ()


def annotations(names: "dict[str, Any]") -> None:
    """Have msgspec evaluate what is in the table at once, without the forward references of typing."""
    refer, evaluate_type = names["_forward_ref"], names["_eval_type"]

    def forward_ref(text: str) -> object:
        name = name_of("hint", text)
        return refer(text) if _packed.find(name) is None else Hint(name)

    def eval_type(hint: object, globals_: "dict[str, Any]", locals_: "dict[str, Any]") -> object:
        if type(hint) is not Hint:
            return evaluate_type(hint, globals_, locals_)
        return eval(loads(_packed.read(hint)), globals_, locals_)  # noqa: S302, S307 - part of the program

    names["_forward_ref"], names["_eval_type"] = forward_ref, eval_type


def hook(name: str, names: "dict[str, Any]") -> None:
    """Change a module that compiles; `names` are what its code finds before the built-in ones."""
    if name == "dataclasses":
        names["exec"] = execute
    elif name == "collections":
        names["eval"] = evaluate
    elif name == "re._compiler" and HAS_EXPRESSIONS:
        names["compile"] = compiler(names["compile"])
    elif name == "msgspec._utils":
        annotations(names)


HOOKED = ("dataclasses", "collections", "msgspec._utils", "re._compiler")
