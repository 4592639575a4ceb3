"""Rendering: one door to both languages, and a cache in front of it."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from typing import Final

from nodemanager.plan.templates.budget import ACTIONS_MAX, CODE_MAX, OUTPUT_MAX, Meter, Scope
from nodemanager.plan.templates.errors import FunctionError, TemplateError, masked
from nodemanager.plan.templates.shapes import Data

ENGINES: Final = ("gotemplate", "jinja")
"""Template languages, as `engine` of a file names them."""
_MARKS: Final = ("{{", "{%", "{#")
_ACTION: Final = re.compile(r"\{[{%#](.*?)(?:[%}#]\}|\Z)", re.DOTALL)
_CACHE_BYTES: Final = 8 * 1024 * 1024


def render(text: str, data: Data, *, engine: str = "gotemplate", name: str = "template") -> str:
    """Return what the template makes of the data; raise TemplateError, which never repeats the data."""
    if engine not in ENGINES:
        raise TemplateError(name, f"there is no engine {engine!r}: use {' or '.join(ENGINES)}")
    if not any(mark in text for mark in _MARKS):
        return text
    _check_size(text, name)
    try:
        return _rendered(text, data, engine, name)
    except TemplateError as error:
        raise TemplateError(name, masked(error.why, data.secrets()), error.line) from None
    except FunctionError as error:
        raise TemplateError(name, masked(str(error), data.secrets())) from None


def _check_size(text: str, name: str) -> None:
    """Refuse what takes long to compile; plain text between the actions costs next to nothing."""
    if len(text) > OUTPUT_MAX:
        raise TemplateError(name, f"it is longer than {OUTPUT_MAX} characters")
    actions = [len(found[1]) for found in _ACTION.finditer(text)]
    if len(actions) > ACTIONS_MAX or sum(actions) > CODE_MAX:
        why = f"it has more than {ACTIONS_MAX} actions, or more than {CODE_MAX} characters in them"
        raise TemplateError(name, why)


def _rendered(text: str, data: Data, engine: str, name: str) -> str:
    root = data.root()
    scope = Scope(Meter(root.weight), root)
    if engine == "jinja":
        from nodemanager.plan.templates import jinja

        return jinja.render(text, scope, name)
    from nodemanager.plan.templates import gotemplate

    return gotemplate.render(text, scope, name)


class RenderCache:
    """Remembers what templates rendered to, by a hash of all that went in; errors are not kept.

    Bounded by number and by size: what was not asked for the longest is forgotten first.
    """

    def __init__(self, entries: int = 1024, size: int = _CACHE_BYTES) -> None:
        self._entries = entries
        self._size_max = size
        self._size = 0
        self._known: OrderedDict[bytes, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._size = 0

    def render(self, text: str, data: Data, *, engine: str = "gotemplate", name: str = "template") -> str:
        """Render, or return what the same template made of the same data before."""
        key = _digest(text, data, engine)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        rendered = render(text, data, engine=engine, name=name)
        self._known[key] = rendered
        self._size += len(rendered)
        while self._known and (len(self._known) > self._entries or self._size > self._size_max):
            self._size -= len(self._known.popitem(last=False)[1])
        return rendered


def _digest(text: str, data: Data, engine: str) -> bytes:
    digest = hashlib.sha256(data.digest())
    for part in (engine.encode(), text.encode(errors="surrogatepass")):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
