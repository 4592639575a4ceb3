"""How data of hosts is shown: what is secret of it only to those who asked for that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nodemanager.cli.views import output
from nodemanager.plan.data import explaining
from nodemanager.plan.data.explaining import Statement
from nodemanager.plan.data.layers import Layer
from nodemanager.plan.data.merging import HostData, LayeredValue, Path, Tree

SECRET: Final = "<secret>"  # noqa: S105
WIDEST: Final = 60


@dataclass(frozen=True, slots=True)
class DataView:
    """Shows data of a host."""

    data: HostData
    secrets: bool = False
    """Also what is secret."""

    def write(self) -> None:
        """Write a table of all values: each with the layer that it is from, and those that say otherwise."""
        rows = []
        for path, leaf in self.data.leaves():
            beaten = ", ".join(map(str, explaining.beaten(self.data, path)))
            value = self._text(leaf.value, leaf.layer)
            rows.append([dotted(path), value, str(leaf.layer), beaten or output.NONE])
        output.TableWriter(["KEY", "VALUE", "FROM", "OVER"]).write(rows)

    def plain(self) -> dict[str, Any]:
        """Return all of it for programs."""
        values = [
            {
                "key": dotted(path),
                "from": _layer(leaf.layer),
                "over": [_layer(one) for one in explaining.beaten(self.data, path)],
            }
            for path, leaf in self.data.leaves()
        ]
        return {
            "data": self._tree(self.data.tree),
            "values": values,
            "layers": [_layer(one) for one in dict.fromkeys(layer for layer, _ in self.data.said)],
            "clashes": [str(one) for one in self.data.clashes],
        }

    def write_statements(self, said: Sequence[Statement], path: Path) -> None:
        """Write what layers say of a key, the strongest first."""
        rows = []
        for one in said:
            value = self._text(one.value, one.layer)
            shown = value if one.path == path else f"{dotted(one.path)} = {value}"
            rows.append([str(one.effect), str(one.layer), one.layer.field, shown])
        output.TableWriter(["EFFECT", "LAYER", "DECLARED IN", "VALUE"]).write(rows)

    def plain_statements(self, said: Sequence[Statement]) -> list[dict[str, Any]]:
        """Return the same for programs."""
        return [
            {
                "effect": str(one.effect),
                "layer": _layer(one.layer),
                "key": dotted(one.path),
                "value": self._shown(one.value, one.layer),
            }
            for one in said
        ]

    def _tree(self, tree: Tree) -> dict[str, Any]:
        return {
            key: self._shown(value.value, value.layer)
            if isinstance(value, LayeredValue)
            else self._tree(value)
            for key, value in sorted(tree.items())
        }

    def _shown(self, value: Any, layer: Layer) -> Any:
        return SECRET if layer.secret and not self.secrets else value

    def _text(self, value: Any, layer: Layer) -> str:
        shown = self._shown(value, layer)
        if not isinstance(shown, str):
            shown = json.dumps(shown, sort_keys=isinstance(shown, Mapping))
        return output.one_line(shown, WIDEST) or '""'


def dotted(path: Path) -> str:
    """Return a key as people write it."""
    return output.one_line(".".join(path))


def _layer(layer: Layer) -> dict[str, str]:
    found = {"kind": layer.kind, "name": layer.name}
    return {**found, "configSet": layer.config_set} if layer.config_set else found
