"""What people call our kinds: `mn`, `managednode`, `ManagedNodes`, `mn/web1`, `mn,cs`, `all`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import click

from nodemanager.api import kinds
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.kind_parts import CATEGORY, KindEntry
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource

_EVERYTHING: Final = (CATEGORY, "all")
"""Words for all of our kinds that are in a namespace; kubectl knows the first of them, too, for all kinds."""


class KindTarget(NamedTuple):
    """The objects of a request: the named ones, or all of the kind."""

    kind: KindEntry
    names: tuple[str, ...] = ()


def find(text: str) -> list[KindEntry]:
    """Return the kinds that a word such as `mn` or `mn,cs` means, or raise a usage error."""
    found: list[KindEntry] = []
    for word in text.lower().split(","):
        meant = [kind for kind in kinds.KINDS if _means(word, kind)]
        if not meant:
            known = ", ".join(f"{kind.names[0]} ({', '.join(kind.names[1:-3])})" for kind in kinds.KINDS)
            raise click.UsageError(f"there is no kind {word!r}; there are {known}")
        found += [kind for kind in meant if kind not in found]
    return found


def _means(word: str, kind: KindEntry) -> bool:
    """Tell whether a word names a kind. A user who lists one namespace need not have rights elsewhere."""
    return word in kind.names or (word in _EVERYTHING and kind.resource.namespaced)


def parse(words: Sequence[str]) -> list[KindTarget]:
    """Return what `KIND[,KIND] [NAME...]` or `KIND/NAME...` asks for, or raise a usage error."""
    if any("/" in word for word in words):
        return _parse_references(words)
    meant = find(words[0])
    names = tuple(words[1:])
    if "" in names:
        raise click.UsageError("a name is empty")
    if names and len(meant) > 1:
        raise click.UsageError("names need one kind; to name objects of several kinds, write KIND/NAME")
    return [KindTarget(kind, names) for kind in meant]


def _parse_references(words: Sequence[str]) -> list[KindTarget]:
    named: dict[KindEntry, list[str]] = {}
    for word in words:
        text, slash, name = word.partition("/")
        if not slash or not name or "/" in name:
            raise click.UsageError(f"{word!r} is not KIND/NAME; write all of them as KIND/NAME, or KIND NAME")
        meant = find(text)
        if len(meant) > 1:
            raise click.UsageError(f"{word!r} names one object of several kinds; name one kind")
        named.setdefault(meant[0], []).append(name)
    return [KindTarget(kind, tuple(names)) for kind, names in named.items()]


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


async def managed_node(client: Client, name: str, namespace: str, doing: str) -> ManagedNode:
    """Return a host, or say that there is none; `doing` is what it is wanted for."""
    try:
        with installed(MANAGED_NODES):
            return await client.get(MANAGED_NODES, name, namespace)
    except errors.NotFound as error:
        if not error.details.name:
            raise
        raise click.ClickException(
            f"cannot {doing} {name}: there is no such host in namespace {namespace};"
            " see nodemanager get mn -A"
        ) from error
