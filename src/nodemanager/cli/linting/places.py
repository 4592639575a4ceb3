"""Where in a YAML text a value stands, so that editors and reviews can point at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nodemanager.plan.lint.findings import Step

Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class ManifestPlace:
    """The line of a value, and that of the first line of a text in a block (`|`)."""

    line: int
    block: int | None = None


Places = dict[Path, ManifestPlace]


def places(text: str) -> list[Places]:
    """Return the places of all values, document by document; the text was read before, within bounds."""
    import yaml

    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    found: list[Places] = []
    while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.DocumentStartEvent):
            found.append({})
            _Walk(yaml, parser, found[-1]).value(parser.get_event(), ())
    return found


def nearest(known: Places, path: Path) -> ManifestPlace:
    """Return the place of a value, or of what is around it if it is not written there."""
    while path and path not in known:
        path = path[:-1]
    return known.get(path, ManifestPlace(1))


class _Walk:
    def __init__(self, yaml: Any, parser: Any, found: Places) -> None:
        self._yaml = yaml
        self._next = parser.get_event
        self._found = found

    def value(self, event: Any, path: Path) -> None:
        line = event.start_mark.line + 1
        block = line + 1 if getattr(event, "style", None) == "|" else None
        self._found.setdefault(path, ManifestPlace(line, block))
        if isinstance(event, self._yaml.SequenceStartEvent):
            number = 0
            while not isinstance(item := self._next(), self._yaml.SequenceEndEvent):
                self.value(item, (*path, number))
                number += 1
        elif isinstance(event, self._yaml.MappingStartEvent):
            while not isinstance(key := self._next(), self._yaml.MappingEndEvent):
                inner = (*path, str(getattr(key, "value", "")))
                if not isinstance(key, self._yaml.ScalarEvent | self._yaml.AliasEvent):
                    self.value(key, (*inner, "?"))  # a key that is no text was refused before
                self._found[inner] = ManifestPlace(key.start_mark.line + 1)
                self._value_of(inner)

    def _value_of(self, path: Path) -> None:
        """Read the value of a key, whose line is that of the key unless it is a text in a block."""
        key = self._found.pop(path)
        self.value(self._next(), path)
        self._found[path] = ManifestPlace(key.line, self._found[path].block)
