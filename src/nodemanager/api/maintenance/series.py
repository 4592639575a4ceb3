"""Which hosts are meant, and in which order: the fields that NodeSeries has, and other kinds may have inline.

canaries  ->  the groups, one after the other  ->  last
"""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.kube.hints import NAME_MAX, Rule, meta
from nodemanager.kube.objects import Struct
from nodemanager.kube.selectors import LabelSelector

MAX_NAMES: Final = 4096


class SeriesSpec(Struct):
    """Which hosts are meant, and in which order. Nothing given means all hosts of the namespace."""

    selector: Annotated[
        LabelSelector | None, meta("Only hosts whose ManagedNode has these labels.", atomic=True)
    ] = None
    node_selector: Annotated[
        LabelSelector | None,
        meta(
            "Only hosts whose Kubernetes Node has these labels. Hosts that are no Node are not chosen, and "
            "Nodes without an agent take no part; the status says how many. The operator must be allowed to "
            "read Nodes.",
            atomic=True,
        ),
    ] = None
    names: Annotated[
        list[Annotated[str, meta("Name of a ManagedNode.", min_length=1, max_length=NAME_MAX)]],
        meta("Only these hosts, and with selector those of them that it chooses.", max_items=MAX_NAMES),
    ] = []
    exclude: Annotated[
        LabelSelector | None, meta("No host whose ManagedNode has these labels.", atomic=True)
    ] = None
    canaries: Annotated[
        LabelSelector | None,
        meta("Those of the hosts that go first, before all groups.", atomic=True),
    ] = None
    last: Annotated[
        LabelSelector | None,
        meta("Those of the hosts that go last, after all groups, such as the control plane.", atomic=True),
    ] = None
    group_by: Annotated[
        str,
        meta(
            "A label, such as topology.kubernetes.io/zone: hosts with the same value are a group, and the "
            "next group begins when one is done. Hosts without it are a group, too. Empty: one group of all.",
            max_length=317,
        ),
    ] = ""
    order: Annotated[
        list[Annotated[str, meta("A value of the label.", max_length=63)]],
        meta(
            "Groups that come first, in this order; the others follow by name. Goes with groupBy.",
            max_items=256,
        ),
    ] = []


SERIES_RULES: Final = (
    Rule(
        "!has(self.order) || size(self.order) == 0 || (has(self.groupBy) && self.groupBy != '')",
        "must not be given without groupBy: it orders the values of that label",
        ".order",
    ),
)
