"""Data of hosts: what templates read as `.Data`, and which ConfigMaps and Secrets it comes from.

What is inside is the business of whoever writes the templates, so it has no schema; `plan.data` has bounds.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from nodemanager.kube.hints import NAME_MAX, NOT_EMPTY, REFERENCE, Rule, meta
from nodemanager.kube.objects import Struct
from nodemanager.kube.selectors import LabelSelector

KEYS_MAX = 1024

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


Layers = Annotated[
    list[DataFrom],
    meta(
        "ConfigMaps and Secrets with data for the hosts of this set, which may read exactly these; a later "
        "one wins.",
        max_items=64,
    ),
]
