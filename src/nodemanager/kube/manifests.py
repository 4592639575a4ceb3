"""Manifests: YAML in and out, with the meaning that kubectl gives it.

Reading goes from parser events straight to values, never through PyYAML's composer: that one
recurses in C (deep nesting ends the process), and its constructors make dates and sexagesimal
numbers of text. Bounded are the text, its depth, and what aliases may repeat.

One thing is stricter than kubectl, which silently drops the first of two equal keys: here a
key that is given twice is an error. PyYAML is imported when it is needed.
"""

from __future__ import annotations

import base64
import binascii
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nodemanager.kube import scalars
from nodemanager.kube.objects import Untyped

MAX_TEXT = 16 * 2**20
"""Most characters we read at once: ten times what etcd takes as one object."""

MAX_DEPTH = 100
"""Deepest nesting we follow."""

MAX_ALIASED = 4 * 2**20
"""Most characters that aliases may repeat, in one text."""

MAX_WHY = 1024
"""Most characters that a message repeats of what it is about."""

_ODD_START = "cannot start any token"
_NO_TABS = "; indent by spaces, not tabs, and quote texts that begin with @ or `"
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset((_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null"))
_UNFIT = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x84\\x86-\\x9f\\ud800-\\udfff\\ufffe\\uffff]")
"""All but what YAML allows; the long list of what it allows takes 4 ms to compile."""

_OTHER_BREAKS = re.compile("[\\r\\x85\\u2028\\u2029]")
_TURNS = re.compile("[\\u202a-\\u202e\\u2066-\\u2069]")
"""What makes text read in another direction, so that it says something else to people than to programs."""


class ManifestError(ValueError):
    """A manifest that cannot be read; the message names file, document and line."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


class _Problem(Exception):
    def __init__(self, mark: Any, why: str) -> None:
        super().__init__(why)
        self.line: int = mark.line + 1 if mark is not None else 1


def load_all(text: str, source: str) -> list[Untyped]:
    """Return the objects in a text of one or more YAML documents; `source` names it in messages.

    Empty documents are skipped, and a `v1` List stands for its items.
    """
    found = enumerate(documents(text, source), 1)
    return [obj for number, (line, value) in found for obj in objects(value, line, source, number)]


def documents(text: str, source: str) -> list[tuple[int, Any]]:
    """Return every YAML document of a text as (line, value), whatever it holds."""
    if len(text) > MAX_TEXT:
        raise ManifestError(
            f"cannot read {source}: longer than {MAX_TEXT} characters; split it into several files"
        )
    unfit = _UNFIT.search(text)
    if unfit:
        line = text.count("\n", 0, unfit.start()) + 1
        why = f"line {line}: character {unfit[0]!r} is not allowed in YAML"
        raise ManifestError(f"cannot read {source}: {why}", line)
    reader = _Reader(text)
    try:
        return list(reader.documents())
    except _Problem as problem:
        raise _error(source, max(reader.document, 1), problem.line, str(problem)) from None


def _error(source: str, document: int, line: int, why: str) -> ManifestError:
    shown = why if len(why) <= MAX_WHY else why[:MAX_WHY] + "..."
    return ManifestError(f"cannot read {source}: document {document}, line {line}: {shown}", line)


def objects(value: Any, line: int, source: str, document: int) -> list[Untyped]:
    """Return the objects of a document, of which a `v1` List has any number."""
    if value is None:
        return []
    if not isinstance(value, dict):
        raise _error(source, document, line, f"an object was expected, not {value!r:.40}")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise _error(source, document, line, f"{field} is missing, or is not text")
    if (value["apiVersion"], value["kind"]) != ("v1", "List"):
        return [value]
    items = value.get("items") or []
    if not isinstance(items, list):
        raise _error(source, document, line, "items of the List is not a list")
    return [each for item in items for each in objects(item, line, source, document)]


class _Reader:
    """Builds values out of the events of a parser."""

    def __init__(self, text: str) -> None:
        import yaml  # 0.9 MiB that an agent at rest does without

        self._yaml = yaml
        self._parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._weight = 0
        self._aliased = 0
        self.document = 0

    def documents(self) -> Iterator[tuple[int, Any]]:
        """Yield each document as (line, value)."""
        while not isinstance(event := self._next(), self._yaml.StreamEndEvent):
            if isinstance(event, self._yaml.DocumentStartEvent):
                self.document += 1
                self._anchors.clear()
                first = self._next()
                yield first.start_mark.line + 1, self._value(first, 1)

    def _next(self) -> Any:
        try:
            return self._parser.get_event()
        except self._yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            said = ": ".join(filter(None, (exc.context, exc.problem)))
            raise _Problem(mark, said + (_NO_TABS if _ODD_START in said else "")) from None

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, self._yaml.AliasEvent):
            return self._alias(event)
        if depth > MAX_DEPTH:
            raise _Problem(event.start_mark, f"nested deeper than {MAX_DEPTH} levels")
        before = self._weight
        value: Any
        if isinstance(event, self._yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, self._yaml.SequenceStartEvent):
            value = self._sequence(event, depth)
        else:
            value = self._mapping(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._weight - before)
        return value

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _Problem(event.start_mark, f"alias *{event.anchor} is used before its anchor is complete")
        value, weight = self._anchors[event.anchor]
        self._weight += weight
        self._aliased += weight
        if self._aliased > MAX_ALIASED:
            raise _Problem(event.start_mark, f"aliases repeat more than {MAX_ALIASED} characters")
        return copy.deepcopy(value)

    def _scalar(self, event: Any) -> scalars.Scalar:
        text: str = event.value
        self._weight += len(text) + 1
        try:
            if event.tag in _PLAIN_TAGS or (event.tag is None and event.implicit[0]):
                return scalars.plain(text)
            if event.tag in (None, "!", _TAG + "str"):
                return text
            if event.tag == _TAG + "binary":
                return base64.b64decode(text, validate=False).decode("utf-8")
        except UnicodeDecodeError:
            raise _Problem(event.start_mark, "!!binary holds bytes that are not UTF-8 text") from None
        except (ValueError, binascii.Error) as exc:
            raise _Problem(event.start_mark, str(exc)) from None
        raise _Problem(event.start_mark, f"tag {event.tag} is not known here: remove it")

    def _sequence(self, event: Any, depth: int) -> list[Any]:
        self._check_tag(event, "seq")
        values = []
        while not isinstance(item := self._next(), self._yaml.SequenceEndEvent):
            values.append(self._value(item, depth + 1))
            self._weight += 1
        return values

    def _mapping(self, event: Any, depth: int) -> dict[str, Any]:
        self._check_tag(event, "map")
        values: dict[str, Any] = {}
        given: set[str] = set()
        while not isinstance(key_event := self._next(), self._yaml.MappingEndEvent):
            if _is_merge(self._yaml, key_event):
                self._merge(values, self._next(), depth)
                continue
            key = self._key(key_event, depth)
            if key in given:
                raise _Problem(key_event.start_mark, f"key {key!r} is given twice")
            given.add(key)
            values[key] = self._value(self._next(), depth + 1)
        return values

    def _merge(self, values: dict[str, Any], event: Any, depth: int) -> None:
        # In kubectl a merge takes effect where it stands: it overrides what is above it.
        merged = self._value(event, depth + 1)
        for each in reversed(merged) if isinstance(merged, list) else [merged]:
            if not isinstance(each, dict):
                raise _Problem(event.start_mark, "<< can only merge maps")
            values.update(each)

    def _key(self, event: Any, depth: int) -> str:
        key = self._value(event, depth + 1)
        if isinstance(key, str):
            return key
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int | float):
            return str(key)
        raise _Problem(event.start_mark, "a key must be text, not empty, a list or a map")

    def _check_tag(self, event: Any, expected: str) -> None:
        if event.tag not in (None, "!", _TAG + expected):
            raise _Problem(event.start_mark, f"tag {event.tag} is not known here: remove it")


def _is_merge(yaml: Any, event: Any) -> bool:
    return (
        isinstance(event, yaml.ScalarEvent)
        and event.value == "<<"
        and event.tag is None
        and event.implicit[0]
    )


def dump(obj: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> str:
    """Return one object, or several as documents, as YAML that a person reads and kubectl takes."""
    import yaml

    objects = [obj] if isinstance(obj, Mapping) else list(obj)
    text: str = yaml.dump_all(
        objects,
        Dumper=_dumper(yaml),
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        explicit_start=len(objects) > 1,
        width=100,
    )
    return _TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # `_style` has them in double quotes


def _dumper(yaml: Any) -> Any:
    def represent_text(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar(_TAG + "str", text, style=_style(text))

    dumper: Any = type("ManifestDumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_representer(str, represent_text)
    return dumper


def _style(text: str) -> str | None:
    if _OTHER_BREAKS.search(text) or _TURNS.search(text):
        return '"'  # any other style would turn these line breaks into plain ones, and has no escapes
    if "\n" in text:
        return "|"
    return None if scalars.is_text(text) else "'"
