"""Data of hosts: what templates read as `.Data`, and which ConfigMaps and Secrets it comes from.

The authors of templates decide its content, so it has no schema; `plan.data` has limits.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec

from nodemanager.kube.hints import NAME_MAX, NOT_EMPTY, REFERENCE, Rule, meta
from nodemanager.kube.objects import Struct
from nodemanager.kube.selectors import LabelSelector

KEYS_MAX: Final = 1024
NESTING_MAX: Final = 64
"""Levels that are read at all; callers that use data allow fewer."""


class HasData(Struct):
    """Has a field `data` that anybody may fill, and that can be compared and encoded once it was read."""

    def __post_init__(self) -> None:
        data = getattr(self, "data", None)
        if not data:
            return
        if is_deeper(data, NESTING_MAX):
            raise ValueError(f"data is nested deeper than {NESTING_MAX} levels")
        if _has_long_number(data):  # such as 1e20, which an API returns as 100000000000000000000
            msgspec.structs.force_setattr(self, "data", _shortened(data))

    def __eq__(self, other: object) -> bool:
        """Tell 1 from true and 1.0 in data, as templates do, and Python does not."""
        if super().__eq__(other) is not True:
            return False
        mine, others = (getattr(one, "data", None) for one in (self, other))
        return not mine or _encoded(mine) == _encoded(others)

    __hash__ = Struct.__hash__


def is_deeper(value: Any, levels: int) -> bool:
    """Tell whether maps and lists have more levels than this; it looks no deeper."""
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(is_deeper(each, levels - 1) for each in inner)


def _encoded(data: Any) -> bytes:
    return msgspec.json.encode(data, order="sorted")


OfNode = Annotated[
    dict[str, Any],
    meta(
        "Data of this host, which its templates read as .Data; it wins over that of all ConfigSets. Every "
        "host of the namespace can read it: secrets belong into a Secret.",
        max_properties=KEYS_MAX,
    ),
]
OfSet = Annotated[
    dict[str, Any],
    meta(
        "Data of the hosts of this set, which all their templates read as .Data; it wins over dataFrom of "
        "this set.",
        max_properties=KEYS_MAX,
    ),
]


class LayerName(Struct):
    """Names a ConfigMap or a Secret that holds data."""

    name: Annotated[
        str,
        meta(
            "Its name, in the namespace of the ConfigSet.",
            NOT_EMPTY,
            pattern=REFERENCE,
            required=True,
            max_length=NAME_MAX,
        ),
    ] = ""


class DataFrom(Struct):
    """A layer of data: one ConfigMap or Secret, for all hosts of the set or for some of them."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.configMapRef) != has(self.secretRef)",
            "a layer is one object: write one of configMapRef and secretRef, with its name",
        ),
    )

    config_map_ref: Annotated[
        LayerName | None,
        meta(
            "Take the data of a ConfigMap: keys that end in .yaml, .yml or .json are documents, others texts."
        ),
    ] = None
    secret_ref: Annotated[
        LayerName | None, meta("Take the data of a Secret in the same way; it is never shown or logged.")
    ] = None
    node_selector: Annotated[
        LabelSelector | None,
        meta("Which hosts of the set the layer is for, by their labels; omitted: all of them.", atomic=True),
    ] = None


def _has_long_number(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return any(map(_has_long_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _shortened(value: Any) -> Any:
    """Return a value with numbers as floats that need more than 64 bits, as YAML has them."""
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    try:
        return float(value) if _has_long_number(value) else value
    except OverflowError:
        raise ValueError("data has a number that is too large; write it in quotes") from None


Layers = Annotated[
    list[DataFrom],
    meta(
        "ConfigMaps and Secrets with data for the hosts of this set, which may read exactly these; a later "
        "one wins.",
        max_items=64,
    ),
]
