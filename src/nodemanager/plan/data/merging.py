"""Merges layers of data into one: maps are merged, other values are replaced, null removes a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.plan.data.layers import Layer
from nodemanager.plan.data.reading import DataError, read

MERGED_MAX: Final = 256 * 1024
"""Bytes of everything together, as JSON."""
Path = tuple[str, ...]
Stored = Mapping[str, Mapping[str, str | bytes]]
"""What is in ConfigMaps, or in Secrets, by name."""


class MissingLayer(DataError):
    """A layer that does not exist, or that may not be read."""


@dataclass(frozen=True, slots=True)
class LayeredValue:
    """A value that is no map, or an empty one, and the layer that it is from."""

    value: Any
    layer: Layer


Tree = dict[str, "LayeredValue | Tree"]


@dataclass(frozen=True, slots=True)
class Clash:
    """A key that is a map, a list or a value in one layer, and something else in a layer that it won over."""

    path: Path
    winner: Layer
    loser: Layer

    def __str__(self) -> str:
        key = ".".join(self.path)
        return f"{key} in {self.winner} replaces something of another kind in {self.loser}"


@dataclass(frozen=True, slots=True)
class HostData:
    """The data of a host, value by value with its layer."""

    said: Sequence[tuple[Layer, Mapping[str, Any]]] = ()
    """What each layer says, document by document; the first yields to all others."""
    tree: Tree = field(default_factory=dict)
    clashes: Sequence[Clash] = ()

    def leaves(self) -> Iterator[tuple[Path, LayeredValue]]:
        """Yield all values by key, sorted."""
        return _leaves(self.tree, ())

    def values(self, *, secrets: bool = True) -> dict[str, Any]:
        """Return it as templates see it, sorted; what is secret of it only if that is asked for."""
        return _values(self.tree, secrets)

    @property
    def secret_keys(self) -> frozenset[str]:
        """The keys at the top that something secret is in."""
        return frozenset(path[0] for path, leaf in self.leaves() if leaf.layer.secret)

    def hidden(self) -> list[str]:
        """Return all secret texts: what an error must not repeat."""
        return [text for _, leaf in self.leaves() if leaf.layer.secret for text in _texts(leaf.value)]


def host_data(found: Sequence[Layer], secrets: Stored, config_maps: Stored) -> HostData:
    """Return what layers are together; raise DataError for one that is missing or of no use."""
    said: list[tuple[Layer, Mapping[str, Any]]] = []
    for layer in found:
        stored: Mapping[str, str | bytes] = {}
        if layer.own is None:
            known = {SECRETS.kind: secrets, CONFIG_MAPS.kind: config_maps}[layer.kind]
            if layer.name not in known:
                why = "it does not exist, or may not be read; create it, or remove the layer"
                raise MissingLayer(layer, why)
            stored = known[layer.name]
        said += [(layer, each) for each in read(layer, stored)]
    return merged(said)


def merged(said: Sequence[tuple[Layer, Mapping[str, Any]]]) -> HostData:
    """Return what comes of layers; each wins over those before it."""
    tree: Tree = {}
    clashes: list[Clash] = []
    for layer, values in said:
        _lay(tree, values, layer, (), clashes)
    found = HostData(tuple(said), tree, tuple(clashes))
    size = len(msgspec.json.encode(found.values()))
    if size > MERGED_MAX:
        last, _ = said[-1]
        why = f"with all layers below it there are {size} bytes, and {MERGED_MAX} are allowed; remove some"
        raise DataError(last, why)
    return found


def _lay(tree: Tree, values: Mapping[str, Any], layer: Layer, path: Path, clashes: list[Clash]) -> None:
    """Put a layer over what is there."""
    for key, value in values.items():
        where, old = (*path, key), tree.get(key)
        if value is None:  # as in Helm
            tree.pop(key, None)
            continue
        if old is not None and _kind(old) != _kind(value):
            losers = [old] if isinstance(old, LayeredValue) else [leaf for _, leaf in _leaves(old, ())]
            clashes += [Clash(where, layer, losers[0].layer)] if losers else []
        if isinstance(value, Mapping):
            inner = old if isinstance(old, dict) else {}
            _lay(inner, value, layer, where, clashes)
            tree[key] = inner or LayeredValue({}, layer)  # its name alone may be secret
        else:
            tree[key] = LayeredValue(value, layer)


def _kind(value: Any) -> type:
    value = value.value if isinstance(value, LayeredValue) else value
    return dict if isinstance(value, Mapping) else list if isinstance(value, list) else str


def _leaves(tree: Tree, path: Path) -> Iterator[tuple[Path, LayeredValue]]:
    for key, value in sorted(tree.items()):
        if isinstance(value, LayeredValue):
            yield (*path, key), value
        else:
            yield from _leaves(value, (*path, key))


def _values(tree: Tree, secrets: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in sorted(tree.items()):
        if isinstance(value, dict):
            found[key] = _values(value, secrets)
        elif secrets or not value.layer.secret:
            found[key] = value.value
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value
        yield from (line.strip() for line in value.splitlines())
    elif not isinstance(value, bool):
        yield str(value)
