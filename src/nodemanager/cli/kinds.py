"""What people call our kinds: `mn`, `managednode`, `ManagedNodes`, `mn/web1`, `mn,cs`, `all`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import click

from nodemanager.api import kinds
from nodemanager.api.kind_parts import CATEGORY, Kind
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource

_EVERYTHING: Final = (CATEGORY, "all")
"""Words for all of our kinds; kubectl knows the first of them, too."""


class Target(NamedTuple):
    """Objects that somebody asked for: those named, or all of the kind."""

    kind: Kind
    names: tuple[str, ...] = ()


def find(text: str) -> list[Kind]:
    """Return the kinds that a word such as `mn` or `mn,cs` means, or raise a usage error."""
    found: list[Kind] = []
    for word in text.lower().split(","):
        meant = [kind for kind in kinds.KINDS if word in kind.names or word in _EVERYTHING]
        if not meant:
            known = ", ".join(f"{kind.names[0]} ({', '.join(kind.names[1:-3])})" for kind in kinds.KINDS)
            raise click.UsageError(f"there is no kind {word!r}; there are {known}")
        found += [kind for kind in meant if kind not in found]
    return found


def parse(words: Sequence[str]) -> list[Target]:
    """Return what `KIND[,KIND] [NAME...]` or `KIND/NAME...` asks for, or raise a usage error."""
    if any("/" in word for word in words):
        return _parse_references(words)
    meant = find(words[0])
    names = tuple(words[1:])
    if "" in names:
        raise click.UsageError("a name is empty")
    if names and len(meant) > 1:
        raise click.UsageError("names need one kind; to name objects of several kinds, write KIND/NAME")
    return [Target(kind, names) for kind in meant]


def _parse_references(words: Sequence[str]) -> list[Target]:
    named: dict[Kind, list[str]] = {}
    for word in words:
        text, slash, name = word.partition("/")
        if not slash or not name or "/" in name:
            raise click.UsageError(f"{word!r} is not KIND/NAME; write all of them as KIND/NAME, or KIND NAME")
        meant = find(text)
        if len(meant) > 1:
            raise click.UsageError(f"{word!r} names one object of several kinds; name one kind")
        named.setdefault(meant[0], []).append(name)
    return [Target(kind, tuple(names)) for kind, names in named.items()]


@contextlib.contextmanager
def installed(resource: Resource[Any]) -> Iterator[None]:
    """Turn the 404 of a kind that the cluster does not know into a message that says what to do."""
    try:
        yield
    except errors.NotFound as error:
        if error.details.name:  # the kind is there, the object is not
            raise
        raise errors.NotFound(
            f"cannot read {resource.qualified_name}: this cluster does not know the kind {resource.kind};"
            " teach it with: nodemanager crds --install"
        ) from error
