"""NodeSeries: which hosts, in which order, under a name that several objects can refer to."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.maintenance.maintenancewindow import GROUP, VERSION
from nodemanager.api.maintenance.series import SERIES_RULES, SeriesSpec
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import NAME_MAX, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

RESOLVED: Final = "Resolved"
"""Condition type: every host that is named exists, and there is one at all."""


class SeriesGroup(Struct, omit_defaults=False):
    """Hosts that go one after the other, before the next group begins."""

    name: Annotated[str, meta("Value of the label; canaries and last are called so.")] = ""
    hosts: Annotated[int, meta("How many they are.", format="int32")] = 0


class NodeSeriesStatus(Struct):
    """Which hosts they are now; written by the operator."""

    observed_generation: Annotated[int, meta("The metadata.generation this status is about.", minimum=0)] = 0
    hosts: Annotated[int, meta("How many hosts are meant.", format="int32")] = 0
    silent: Annotated[int, meta("How many of them are silent.", format="int32")] = 0
    groups: Annotated[list[SeriesGroup], meta("The groups in their order, 100 at most.", max_items=100)] = []
    first: Annotated[list[str], meta("The hosts that go first, 20 at most.", max_items=20)] = []
    not_found: Annotated[list[str], meta("Names that no ManagedNode has, 20 at most.", max_items=20)] = []
    without_agent: Annotated[
        int,
        meta(
            "How many Kubernetes Nodes nodeSelector chooses that have no agent, and take no part.",
            format="int32",
        ),
    ] = 0
    first_without_agent: Annotated[
        list[Annotated[str, meta("Name of a Node.", max_length=NAME_MAX)]],
        meta("Some of them, 20 at most.", max_items=20),
    ] = []
    without_node: Annotated[
        int,
        meta("How many hosts nodeSelector leaves out because they are no Kubernetes Node.", format="int32"),
    ] = 0
    conditions: Annotated[
        list[Condition],
        meta("Resolved: whether all named hosts exist.", list_map_keys=("type",), max_items=16),
    ] = []


class NodeSeries(Struct):
    """Which hosts are meant, and in which order."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[SeriesSpec, meta("Which hosts, and in which order.", *SERIES_RULES)] = SeriesSpec()
    status: Annotated[NodeSeriesStatus, meta("Which hosts they are now.")] = NodeSeriesStatus()


NODE_SERIES: Final = Resource(GROUP, VERSION, "NodeSeries", "nodeseries", NodeSeries)
