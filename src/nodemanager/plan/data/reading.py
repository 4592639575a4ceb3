"""Reads one layer, with limits; an error names the layer but does not quote its content."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from nodemanager.api.common.host_data import is_deeper
from nodemanager.kube import manifests
from nodemanager.kube.manifests import ManifestError
from nodemanager.plan.data.layers import Layer

LAYER_MAX: Final = 64 * 1024
"""Bytes of one layer: keys and values as they are stored, or, where they are in a spec, as JSON."""
DEPTH_MAX: Final = 10
"""Levels of maps and lists in each other."""
DOCUMENTS: Final = (".yaml", ".yml", ".json")
"""Keys of ConfigMaps and Secrets that end so hold documents."""


class DataError(ValueError):
    """Data that cannot be used; reads `cannot use ConfigMap web as data: why; what to do`."""

    def __init__(self, layer: Layer, why: str) -> None:
        super().__init__(f"cannot use {layer} as data: {why}")
        self.layer = layer
        self.why = why


def read(layer: Layer, stored: Mapping[str, str | bytes]) -> Sequence[Mapping[str, Any]]:
    """Return what a layer says, document by document; each wins over those before it.

    `stored` is what is in its ConfigMap or Secret, and else not looked at.
    """
    if layer.own is not None:
        _check_depth(layer, layer.own)  # first: what is deep enough cannot even be encoded
        _check_size(layer, len(msgspec.json.encode(layer.own)))
        return [layer.own]
    _check_size(layer, sum(len(_bytes(key)) + len(_bytes(value)) for key, value in stored.items()))
    found = list(_stored(layer, stored))
    for each in found:
        _check_depth(layer, each)
    return found


def _stored(layer: Layer, stored: Mapping[str, str | bytes]) -> Iterator[Mapping[str, Any]]:
    """Yield the documents by name of their keys; texts between two of them are one."""
    items = [(key, _text(layer, key, value)) for key, value in sorted(stored.items())]
    for is_document, group in itertools.groupby(items, lambda item: item[0].endswith(DOCUMENTS)):
        if is_document:
            yield from (_document(layer, key, text) for key, text in group)
        else:
            yield dict(group)


def _text(layer: Layer, key: str, value: str | bytes) -> str:
    try:
        return value if isinstance(value, str) else value.decode()
    except UnicodeDecodeError:
        why = f"{key} is no UTF-8 text; keep bytes in an object of their own, and use contentFrom"
        raise DataError(layer, why) from None


def _document(layer: Layer, key: str, text: str) -> Mapping[str, Any]:
    try:
        found = [value for _, value in manifests.documents(text, key) if value is not None]
    except ManifestError as error:
        # What is wrong with the text of a Secret cannot be said without some of it.
        why = f"cannot read {key}: line {error.line} is no YAML" if layer.secret else str(error)
        raise DataError(layer, f"{why}; correct it") from None
    if len(found) > 1:
        raise DataError(layer, f"{key} has {len(found)} documents; keep one")
    if found and not isinstance(found[0], dict):
        raise DataError(layer, f"{key} is no map; begin it with a key, such as `servers:`")
    return found[0] if found else {}


def _check_size(layer: Layer, size: int) -> None:
    if size > LAYER_MAX:
        raise DataError(layer, f"it has {size} bytes, and {LAYER_MAX} are allowed; split it, or remove some")


def _check_depth(layer: Layer, said: Mapping[str, Any]) -> None:
    if is_deeper(said, DEPTH_MAX):
        raise DataError(layer, f"it is nested deeper than {DEPTH_MAX} levels; flatten it")


def _bytes(value: str | bytes) -> bytes:
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value
