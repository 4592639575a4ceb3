"""EdgeProfile: what sites of one design are made of, what is called how there, and when it is wrong."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.edge import capabilities
from nodemanager.api.edge.bridge_parts import Bridge
from nodemanager.api.edge.profile_parts import (
    REPLICATED,
    KubeVirtSource,
    OperatingSystemChoice,
    Rates,
    SiteNetwork,
    Storage,
    Thresholds,
    Timeouts,
    Topology,
)
from nodemanager.kube.hints import PRINTABLE, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

GROUP: Final = "edge.nodemanager"
VERSION: Final = "v1alpha1"
SIGNATURE: Final = "edge.nodemanager/signature"
"""Annotation: a signature of minisign over the name and the spec."""


_LOOK: Final = "has(self.rates) && has(self.rates.lookEvery) ? self.rates.lookEvery : '10s'"
_AGE: Final = (
    "has(self.thresholds) && has(self.thresholds.heartbeatAge) ? self.thresholds.heartbeatAge : '90s'"
)


class EdgeProfileSpec(Struct):
    """What sites of this design are made of."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *capabilities.rules(),
        Rule(
            "self.topology.nodes.minimum <= self.topology.nodes.maximum",
            "must be at least minimum",
            ".topology.nodes.maximum",
        ),
        Rule(
            "self.topology.links != 'direct' || self.topology.nodes.maximum <= 2",
            "must be at most 2 with direct links: the cables of a bond lead to one other node",
            ".topology.nodes.maximum",
        ),
        Rule(
            "self.storage.mode != 'replicated'"
            f" || self.storage.backend in {capabilities.STORAGE.able([capabilities.REPLICATION])}",
            "must be single with this backend: it keeps no replicas",
            ".storage.mode",
        ),
        Rule(
            "self.storage.mode != 'replicated' || self.topology.nodes.maximum >= 2",
            "must be single where a site has one node: there is nowhere to put a replica",
            ".storage.mode",
        ),
        Rule(
            "!has(self.storage.replicas) || self.storage.replicas <= self.topology.nodes.maximum",
            "must be at most topology.nodes.maximum",
            ".storage.replicas",
        ),
        Rule(
            f"!has(self.workflows) || !('{capabilities.BOND_MODE_FLIP}' in self.workflows)"
            " || (has(self.network) && has(self.network.modes))",
            f"{capabilities.BOND_MODE_FLIP} needs network.bond and network.modes: say which bond is flipped,"
            " and between which modes",
            ".workflows",
        ),
        Rule(
            f"!has(self.workflows) || !('{capabilities.BOND_MODE_FLIP}' in self.workflows)"
            " || !has(self.network) || !has(self.network.modes)"
            " || self.network.modes.single != self.network.modes.multi",
            f"must be another one than single with {capabilities.BOND_MODE_FLIP}: there is nothing to flip",
            ".network.modes.multi",
        ),
        Rule(
            f"!has(self.workflows) || !('{capabilities.REPLICATION_UPGRADE}' in self.workflows)"
            f" || self.storage.mode == '{REPLICATED}'",
            f"must be replicated with {capabilities.REPLICATION_UPGRADE}: one copy would be enough for ever",
            ".storage.mode",
        ),
        Rule(
            f"!has(self.workflows) || !('{capabilities.REPLICATION_UPGRADE}' in self.workflows)"
            " || (self.topology.nodes.maximum >= 2 && has(self.storage.pools)"
            " && size(self.storage.pools) > 0)",
            f"{capabilities.REPLICATION_UPGRADE} needs a site of two nodes and storage.pools: say where"
            " replicas go",
            ".workflows",
        ),
        Rule(
            f"duration({_LOOK}) + duration({_LOOK}) <= duration({_AGE})",
            "must be at least twice rates.lookEvery, which is 10s by default: signs of life would be stale"
            " before anybody looks again",
            ".thresholds.heartbeatAge",
        ),
        Rule(
            "!has(self.kubevirt) || self.virtualisation == 'kubevirt'",
            "goes with virtualisation kubevirt only",
            ".kubevirt",
        ),
        Rule(
            "self == oldSelf || self.version != oldSelf.version",
            "must be another one: what a version says does not change",
            ".version",
        ),
    )

    version: Annotated[
        str,
        meta(
            "Version of the profile, such as 1.2.0.",
            pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$",
            max_length=32,
            required=True,
        ),
    ] = ""
    description: Annotated[str, meta("What it is for.", pattern=PRINTABLE, max_length=1024)] = ""
    topology: Annotated[Topology, meta("Nodes and how they are joined.", required=True)] = Topology()
    storage: Annotated[Storage, meta("What keeps the volumes.", required=True)] = Storage()
    os: Annotated[OperatingSystemChoice, meta("What nodes run.", required=True)] = OperatingSystemChoice()
    virtualisation: Annotated[
        str,
        meta("What runs virtual machines.", enum=tuple(capabilities.VIRTUALISATION.choices), required=True),
    ] = ""
    kubevirt: Annotated[
        KubeVirtSource | None, meta("Where virtual machines are looked at; absent: nowhere.")
    ] = None
    network: Annotated[SiteNetwork | None, meta("The storage network.")] = None
    workflows: Annotated[
        list[Annotated[str, meta("A workflow.", enum=tuple(capabilities.WORKFLOWS))]],
        meta("What may be done at such sites; what a part of the site cannot do is refused.", max_items=8),
    ] = []
    bridge: Annotated[Bridge | None, meta("Where a DaemonSet that does the work today leaves its state.")] = (
        None
    )
    thresholds: Annotated[Thresholds | None, meta("From when on something is wrong.")] = None
    rates: Annotated[Rates | None, meta("How fast things may be done.")] = None
    timeouts: Annotated[Timeouts | None, meta("How long steps of workflows may take.")] = None

    @property
    def choices(self) -> dict[str, str]:
        """What was chosen, by the fields of the table of capabilities."""
        return {
            capabilities.STORAGE.field: self.storage.backend,
            capabilities.SYSTEM.field: self.os.provider,
            capabilities.VIRTUALISATION.field: self.virtualisation,
        }


class EdgeProfile(Struct):
    """A design of sites. It says what is there, and makes nothing happen."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[EdgeProfileSpec, meta("What sites are made of.", required=True)] = EdgeProfileSpec()


EDGE_PROFILES: Final = Resource(GROUP, VERSION, "EdgeProfile", "edgeprofiles", EdgeProfile, namespaced=False)
