"""Why a key of a host's data has its value: the value in each layer, and which layer wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nodemanager.plan.data.layers import Layer
from nodemanager.plan.data.merging import HostData, Path


class Effect(StrEnum):
    """What comes of what a layer says."""

    WINS = "wins"
    PART = "merged"
    """A map, which is merged with those of other layers."""
    REMOVES = "removes it"
    LOSES = "loses"


@dataclass(frozen=True, slots=True)
class Statement:
    """What one layer, or one document of it, says of a key."""

    layer: Layer
    path: Path
    """The key, or what it is in, if the layer says something that is no map of that."""
    value: Any
    effect: Effect


def find(data: HostData, key: str) -> Path | None:
    """Return the key for a text with dots, as keys may contain dots themselves; None = no layer has it."""
    return _find([values for _, values in data.said], key)


def explain(data: HostData, path: Path) -> list[Statement]:
    """Return what the layers say of a key, the one that wins first."""
    found: list[Statement] = []
    over, parts = False, False
    for layer, values in reversed(data.said):
        where, value = _look(values, path)
        if not where:
            continue
        if over:
            effect = Effect.LOSES
        elif isinstance(value, Mapping):
            effect, parts = Effect.PART, True
        else:  # its parts from lower layers do not count any more
            over = True
            effect = Effect.LOSES if parts else Effect.REMOVES if value is None else Effect.WINS
        found.append(Statement(layer, where, value, effect))
    return found


def beaten(data: HostData, path: Path) -> list[Layer]:
    """Return the layers that say something else of a key than the one that won, the strongest first."""
    said = explain(data, path)
    losers = dict.fromkeys(one.layer for one in said if one.effect is Effect.LOSES)
    return [one for one in losers if one != said[0].layer]


def _find(maps: Sequence[Mapping[str, Any]], key: str) -> Path | None:
    fitting = {name for each in maps for name in each if key == name or key.startswith(f"{name}.")}
    for name in sorted(fitting, key=len, reverse=True):
        if name == key:
            return (name,)
        inner = [each[name] for each in maps if isinstance(each.get(name), Mapping)]
        if (rest := _find(inner, key[len(name) + 1 :])) is not None:
            return (name, *rest)
    return None


def _look(values: Mapping[str, Any], path: Path) -> tuple[Path, Any]:
    """Return how far a layer follows a path, and what it says there; nothing, if it leaves the rest open."""
    value: Any = values
    for depth, name in enumerate(path):
        if not isinstance(value, Mapping):
            return path[:depth], value
        if name not in value:
            return (), None
        value = value[name]
    return path, value
