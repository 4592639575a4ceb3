"""What each template of a host can read: the host, its peers, the file's references, the host's data."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.plan import templates
from nodemanager.plan.data import layers, merging
from nodemanager.plan.data.merging import HostData, MissingLayer
from nodemanager.plan.data.reading import DataError
from nodemanager.plan.desired import Failure
from nodemanager.plan.templates import Data

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """The data that a template can read, and whether some of it is secret."""

    data: Data
    secret: bool = False


class TemplateViews:
    """Makes views; parts that several files share are made once, when the first file needs them."""

    def __init__(self, inputs: DeclaredInputs, node: ManagedNode) -> None:
        self._inputs = inputs
        self._node = node

    def of(self, file: File, needed: templates.References) -> View | Failure:
        """Return the view of a file with these references; a Failure if the data of its host is missing."""
        seen = self._with_data(file) if self._layers and templates.reads_data(file) else self._plain
        if isinstance(seen, Failure) or not (needed.secrets or needed.config_maps):
            return seen
        own = templates.node_data(
            self._node,
            secrets=_union(self._inputs.secrets, needed.secrets),
            config_maps={
                key: value
                for key, value in _union(self._inputs.config_maps, needed.config_maps).items()
                if isinstance(value, str)
            },
        )
        data = Data(own, seen.data.nodes, seen.data.values, seen.data.hidden)
        return View(data, seen.secret or bool(needed.secrets))

    def _with_data(self, file: File) -> View | Failure:
        """Return the view with the data of the host; secret data only for files that may need it."""
        if isinstance(self._host, DataError):
            return _failure(file, self._host, self._inputs.withheld)
        secret = self._secret_keys
        return self._everything if secret and templates.may_read(file, secret) else self._public

    @functools.cached_property
    def _secret_keys(self) -> frozenset[str]:
        return frozenset() if isinstance(self._host, DataError) else self._host.secret_keys

    @functools.cached_property
    def _layers(self) -> list[layers.Layer]:
        return layers.layers(self._inputs.config_sets, self._node)

    @functools.cached_property
    def _host(self) -> HostData | DataError:
        try:
            return merging.host_data(self._layers, self._inputs.secrets, self._inputs.config_maps)
        except DataError as error:
            return error

    @functools.cached_property
    def _plain(self) -> View:
        return View(templates.data_of(self._node, self._inputs.nodes))

    @functools.cached_property
    def _public(self) -> View:
        return self._laid(secrets=False)

    @functools.cached_property
    def _everything(self) -> View:
        return self._laid(secrets=True)

    def _laid(self, *, secrets: bool) -> View:
        plain, host = self._plain.data, self._host
        if isinstance(host, DataError):
            raise host
        hidden = host.hidden() if secrets else ()
        return View(Data(plain.node, plain.nodes, host.values(secrets=secrets), hidden), secrets)


def _failure(file: File, error: DataError, withheld: str) -> Failure:
    """Return why a file that reads the data of its host gets no content: it stays as it is."""
    layer, about = error.layer, f"cannot render {file.path}"
    if not isinstance(error, MissingLayer):
        return Failure(f"{about}: {error}")
    if layer.secret and withheld:
        return Failure(f"{about}: {layer} is not used: {withheld}")
    return Failure(
        f"{about}: {layer} does not exist, or this host may not read it, and is part of its data; create it"
        f" in the namespace of the ConfigSet, or correct {layer.field}",
        awaits=str(layer),
    )


def _union(known: Mapping[str, Mapping[str, T]], names: tuple[str, ...]) -> dict[str, T]:
    """Return all keys of several objects; those of later ones win."""
    return {key: value for name in names for key, value in known[name].items()}
