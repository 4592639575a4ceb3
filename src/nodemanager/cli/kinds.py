"""What people call our kinds: `mn`, `managednode`, `ManagedNodes`, `mn/web1`, `mn,cs`, `all`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import click

from nodemanager.api import crds
from nodemanager.api.common import configset, managednode
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource

_RESOURCES: Final[tuple[Resource[Any], ...]] = (managednode.MANAGED_NODES, configset.CONFIG_SETS)


class Kind(NamedTuple):
    """A kind and all its names; the first is the plural."""

    resource: Resource[Any]
    singular: str
    names: tuple[str, ...]
    categories: tuple[str, ...]

    def reference(self, name: str) -> str:
        """Return how scripts name one object: `managednode.common.nodemanager/web1`."""
        return f"{self.singular}.{self.resource.group}/{name}"


class Target(NamedTuple):
    """Objects that somebody asked for: those named, or all of the kind."""

    kind: Kind
    names: tuple[str, ...] = ()


@functools.cache
def all_kinds() -> tuple[Kind, ...]:
    """Return our kinds, with the names that their CRDs give them."""
    by_name = {crd["metadata"]["name"]: crd["spec"]["names"] for crd in crds.all_crds()}
    return tuple(_kind(resource, by_name[resource.qualified_name]) for resource in _RESOURCES)


def _kind(resource: Resource[Any], names: dict[str, Any]) -> Kind:
    plural, singular = names["plural"], names["singular"]
    every = (plural, *names["shortNames"], singular, resource.qualified_name, f"{singular}.{resource.group}")
    return Kind(resource, singular, every, (*names["categories"], "all"))


def find(text: str) -> list[Kind]:
    """Return the kinds that a word such as `mn` or `mn,cs` means, or raise a usage error."""
    found: list[Kind] = []
    for word in text.lower().split(","):
        meant = [kind for kind in all_kinds() if word in kind.names or word in kind.categories]
        if not meant:
            known = ", ".join(f"{kind.names[0]} ({', '.join(kind.names[1:-3])})" for kind in all_kinds())
            raise click.UsageError(f"there is no kind {word!r}; there are {known}")
        found += [kind for kind in meant if kind not in found]
    return found


def parse(words: Sequence[str]) -> list[Target]:
    """Return what `KIND[,KIND] [NAME...]` or `KIND/NAME...` asks for, or raise a usage error."""
    if any("/" in word for word in words):
        return _parse_references(words)
    kinds = find(words[0])
    names = tuple(words[1:])
    if "" in names:
        raise click.UsageError("a name is empty")
    if names and len(kinds) > 1:
        raise click.UsageError("names need one kind; to name objects of several kinds, write KIND/NAME")
    return [Target(kind, names) for kind in kinds]


def _parse_references(words: Sequence[str]) -> list[Target]:
    named: dict[Kind, list[str]] = {}
    for word in words:
        text, slash, name = word.partition("/")
        if not slash or not name or "/" in name:
            raise click.UsageError(f"{word!r} is not KIND/NAME; write all of them as KIND/NAME, or KIND NAME")
        kinds = find(text)
        if len(kinds) > 1:
            raise click.UsageError(f"{word!r} names one object of several kinds; name one kind")
        named.setdefault(kinds[0], []).append(name)
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
