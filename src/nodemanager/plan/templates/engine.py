"""Rendering: one door to both languages, and a cache in front of it."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from nodemanager.plan.templates.budget import ACTIONS_MAX, CODE_MAX, OUTPUT_MAX, Meter, Scope
from nodemanager.plan.templates.errors import FunctionError, NotRendered, TemplateError, masked
from nodemanager.plan.templates.shapes import Data

ENGINES: Final = ("gotemplate", "jinja")
"""Template languages, as `engine` of a file names them."""
_MARKS: Final = ("{{", "{%", "{#")
_ACTION: Final = re.compile(r"\{[{%#](.*?)(?:[%}#]\}|\Z)", re.DOTALL)
_CACHE_BYTES: Final = 8 * 1024 * 1024


def render(
    text: str, data: Data, *, engine: str = "gotemplate", name: str = "template", lax: bool = False
) -> str:
    """Return what the template makes of the data; raise TemplateError, which never repeats the data.

    A missing key is an error; an empty text if rendering is `lax`.
    """
    if engine not in ENGINES:
        raise TemplateError(name, f"there is no engine {engine!r}: use {' or '.join(ENGINES)}")
    if is_literal(text):
        return text
    _check_size(text, name)
    try:
        return _rendered(text, data, engine, name, lax)
    except TemplateError as error:
        raise TemplateError(name, masked(error.why, data.secrets()), error.line) from None
    except FunctionError as error:
        raise TemplateError(name, masked(str(error), data.secrets())) from None


def parse(text: str, *, engine: str = "gotemplate", name: str = "template") -> None:
    """Read the template; raise TemplateError, with line and column, if that cannot be done."""
    if engine not in ENGINES or is_literal(text):
        return
    _check_size(text, name)
    if engine == "jinja":
        from nodemanager.plan.templates import jinja

        jinja.parse(text, name)
    else:
        from nodemanager.plan.templates import gotemplate

        gotemplate.parse(text, name)


def is_literal(text: str) -> bool:
    """Tell whether a template has nothing to be rendered: it is its own output."""
    return not any(mark in text for mark in _MARKS)


def _check_size(text: str, name: str) -> None:
    """Refuse what takes long to compile; plain text between the actions costs next to nothing."""
    if len(text) > OUTPUT_MAX:
        raise TemplateError(name, f"it is longer than {OUTPUT_MAX} characters")
    actions = [len(found[1]) for found in _ACTION.finditer(text)]
    if len(actions) > ACTIONS_MAX or sum(actions) > CODE_MAX:
        why = f"it has more than {ACTIONS_MAX} actions, or more than {CODE_MAX} characters in them"
        raise TemplateError(name, why)


def _rendered(text: str, data: Data, engine: str, name: str, lax: bool) -> str:
    root = data.root()
    secretive = bool(data.node.get("Secrets") or data.hidden)
    scope = Scope(Meter(root.weight), root, lax=lax, secretive=secretive)
    if engine == "jinja":
        from nodemanager.plan.templates import jinja

        return jinja.render(text, scope, name)
    from nodemanager.plan.templates import gotemplate

    return gotemplate.render(text, scope, name)


class RenderCache:
    """Remembers what templates rendered to, by a hash of all that went in, and what was wrong with them.

    Bounded by number and by size: what was not asked for the longest is forgotten first.
    """

    def __init__(
        self, entries: int = 1024, size: int = _CACHE_BYTES, before: Mapping[bytes, str] | None = None
    ) -> None:
        """Take as `before` what `texts` returned in another process: a text counts once it is asked for."""
        self._before = dict(before or {})
        self._entries = entries
        self._size_max = size
        self._size = 0
        self._known: OrderedDict[bytes, str | TemplateError] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._size = 0

    def get(
        self, text: str, data: Data, engine: str, name: str, *, lax: bool = False
    ) -> str | TemplateError | None:
        """Return what the same template made of the same data before, or None."""
        key = _digest(text, data, engine, lax)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        elif (known := self._before.pop(key, None)) is not None:
            self._keep(key, known)
        return TemplateError(name, known.why, known.line) if isinstance(known, TemplateError) else known

    def keep(
        self, text: str, data: Data, engine: str, made: str | TemplateError, *, lax: bool = False
    ) -> None:
        """Remember what became of a template, unless it may be otherwise the next time."""
        key = _digest(text, data, engine, lax)
        if not isinstance(made, NotRendered) and key not in self._known:
            self._keep(key, made)

    def texts(self) -> dict[bytes, str]:
        """Return what was asked for and could be rendered, by the hash of all that went in."""
        return {key: made for key, made in self._known.items() if isinstance(made, str)}

    def _keep(self, key: bytes, made: str | TemplateError) -> None:
        self._known[key] = made
        self._size += _length(made)
        while self._known and (len(self._known) > self._entries or self._size > self._size_max):
            self._size -= _length(self._known.popitem(last=False)[1])


def _length(made: str | TemplateError) -> int:
    return len(made) if isinstance(made, str) else len(made.why)


def _digest(text: str, data: Data, engine: str, lax: bool) -> bytes:
    digest = hashlib.sha256(data.digest())
    for part in (engine.encode(), b"lax" if lax else b"", text.encode(errors="surrogatepass")):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
