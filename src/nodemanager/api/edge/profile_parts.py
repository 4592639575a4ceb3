"""What a site is made of: the parts of an EdgeProfile, but for those of the observation bridge."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.edge import capabilities
from nodemanager.kube.hints import DURATION_MAX, NAME_MAX, POSITIVE_DURATION, REFERENCE, Rule, meta
from nodemanager.kube.objects import Struct

DIRECT: Final = "direct"
ISOLATED: Final = "isolated-switches"
LINKS: Final = (DIRECT, ISOLATED, "joined-switches", "one-switch")
LINSTOR: Final = "linstor"
SINGLE: Final = "single"
REPLICATED: Final = "replicated"
ACTIVE_BACKUP: Final = "active-backup"
BALANCE_RR: Final = "balance-rr"
_WORD: Final = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_DEVICE: Final = "^[A-Za-z0-9][-A-Za-z0-9_.]*$"
_DEVICE_MAX: Final = 15
"""Longest name of a network device that Linux takes."""
_CONTROLLER: Final = r"^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$"
"""A server and perhaps a port: no user, no path."""
_LATER: Final = "; for workflows: nothing reads it yet."


class NodeCount(Struct):
    """How many nodes a site has."""

    minimum: Annotated[int, meta("At least so many.", minimum=1, maximum=64, required=True)] = 1
    maximum: Annotated[
        int, meta("At most so many; more are a mistake, and said.", minimum=1, maximum=64, required=True)
    ] = 1


class NodeRole(Struct):
    """A role that nodes of a site have."""

    name: Annotated[
        str, meta("Its name, such as primary.", pattern=_WORD, min_length=1, max_length=63, required=True)
    ] = ""
    label: Annotated[
        str,
        meta(
            "Label of ManagedNodes of this role, as key or key=value.",
            pattern="^[A-Za-z0-9][-A-Za-z0-9_./]*(=[-A-Za-z0-9_.]*)?$",
            max_length=381,
        ),
    ] = ""


class Topology(Struct):
    """Nodes, their roles, and how they are joined."""

    nodes: Annotated[NodeCount, meta("How many nodes there are.", required=True)] = NodeCount()
    links: Annotated[
        str,
        meta(
            "How the storage networks of two nodes are joined: by direct cables, by two switches that are"
            " not joined, by two that are, or by one. Over direct cables and isolated switches, nodes whose"
            " bonds differ in mode lose every second packet.",
            enum=LINKS,
            required=True,
        ),
    ] = ""
    roles: Annotated[list[NodeRole], meta("The roles of nodes.", list_map_keys=("name",), max_items=16)] = []
    observe_nodes: Annotated[
        bool,
        meta("Whether Nodes of Kubernetes of the names of nodes are looked at: taints, and who is cordoned."),
    ] = False


class LinstorSource(Struct):
    """A LINSTOR controller that is looked at."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.secret) || self.secret == '' || self.url.startsWith('https://')",
            "goes with an address of https only: a certificate is for TLS",
            ".secret",
        ),
    )

    url: Annotated[
        str,
        meta(
            "Its address, such as https://linstor-controller.piraeus-datastore:3371.",
            pattern=_CONTROLLER,
            max_length=NAME_MAX,
            required=True,
        ),
    ] = ""
    secret: Annotated[
        str,
        meta(
            "Secret in the namespace of the EdgeCluster with the client certificate: tls.crt, tls.key and"
            " ca.crt, like linstor-client-tls of Piraeus. Empty: none is shown.",
            pattern=REFERENCE,
            max_length=NAME_MAX,
        ),
    ] = ""


class Storage(Struct):
    """What keeps the volumes."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("!has(self.linstor) || self.backend == 'linstor'", "goes with backend linstor only", ".linstor"),
        Rule(
            "!has(self.piraeus) || self.piraeus == '' || self.backend == 'linstor'",
            "goes with backend linstor only",
            ".piraeus",
        ),
        Rule(
            "!has(self.observeVolumes) || !self.observeVolumes"
            " || (self.backend == 'local-path' && has(self.classes) && size(self.classes) > 0)",
            "goes with backend local-path and classes only",
            ".observeVolumes",
        ),
    )

    backend: Annotated[
        str, meta("What keeps them.", enum=tuple(capabilities.STORAGE.choices), required=True)
    ] = ""
    mode: Annotated[
        str,
        meta("Whether volumes are on one node, or replicated.", enum=(SINGLE, REPLICATED), required=True),
    ] = ""
    replicas: Annotated[int, meta("On how many nodes a replicated volume is.", minimum=2, maximum=16)] = 2
    pools: Annotated[
        list[Annotated[str, meta("A pool.", pattern=_WORD, min_length=1, max_length=48)]],
        meta("Names of the storage pools. With linstor, every node shall have each of them.", max_items=16),
    ] = []
    classes: Annotated[
        list[Annotated[str, meta("A class.", pattern=_WORD, min_length=1, max_length=NAME_MAX)]],
        meta("Names of the StorageClasses.", max_items=16),
    ] = []
    linstor: Annotated[
        LinstorSource | None, meta("The controller that is asked how the storage is; absent: none is.")
    ] = None
    piraeus: Annotated[
        str,
        meta(
            "Name of the LinstorCluster that is looked at, with all LinstorSatellites; empty: none is.",
            pattern=REFERENCE,
            max_length=NAME_MAX,
        ),
    ] = ""
    observe_volumes: Annotated[
        bool, meta("Whether PersistentVolumes of the classes are looked at; for local-path.")
    ] = False


class KubeVirtSource(Struct):
    """Virtual machines that are looked at."""

    namespaces: Annotated[
        list[Annotated[str, meta("A namespace.", pattern=REFERENCE, min_length=1, max_length=63)]],
        meta("Where they are.", min_items=1, max_items=16, required=True),
    ] = []


class OperatingSystemChoice(Struct):
    """What nodes run."""

    provider: Annotated[str, meta("Which one.", enum=tuple(capabilities.SYSTEM.choices), required=True)] = ""


class Vlan(Struct):
    """A VLAN on the bond."""

    name: Annotated[
        str,
        meta("Its device.", pattern=_DEVICE, min_length=1, max_length=_DEVICE_MAX, required=True),
    ] = ""
    id: Annotated[int, meta("Its number.", minimum=1, maximum=4094, required=True)] = 1


class BondModes(Struct):
    """Modes of the bond."""

    single: Annotated[str, meta("With one node.", enum=(ACTIVE_BACKUP, BALANCE_RR), required=True)] = ""
    multi: Annotated[str, meta("With several nodes.", enum=(ACTIVE_BACKUP, BALANCE_RR), required=True)] = ""


class SiteNetwork(Struct):
    """The storage network of a node."""

    bond: Annotated[
        str,
        meta("Name of the bond.", pattern=_DEVICE, min_length=1, max_length=_DEVICE_MAX, required=True),
    ] = ""
    modes: Annotated[BondModes | None, meta("Its modes, for who flips it.")] = None
    vlans: Annotated[list[Vlan], meta("VLANs on it.", list_map_keys=("name",), max_items=32)] = []


def _duration(text: str) -> object:
    return meta(text, POSITIVE_DURATION, max_length=DURATION_MAX)


class Thresholds(Struct):
    """From when on something is wrong."""

    heartbeat_age: Annotated[
        str | None, _duration("A heartbeat that did not change for longer is stale; default 90s.")
    ] = None
    clock_skew: Annotated[
        str | None,
        _duration("A heartbeat further ahead of our clock is from the future; default 30s."),
    ] = None
    forget_nodes: Annotated[
        str | None,
        _duration("A node that vanished is told of for so long; default 1h. One that spec.nodes of the"
                  " EdgeCluster names is told of until it is back."),
    ] = None  # fmt: skip
    free_space_percent: Annotated[
        int | None,
        meta("What shall be free of each of storage.pools, or of all pools if that names none; with less, a"
             " site that is looked at through linstor is unhealthy. Nothing keeps replicas from such a pool"
             " yet: workflows will.", minimum=0, maximum=100),
    ] = None  # fmt: skip


class Rates(Struct):
    """How fast things may be done."""

    look_every: Annotated[
        str | None, _duration("How often the bridge reads; default 10s. 1s at least, 1m at most.")
    ] = None
    placements_at_once: Annotated[
        int | None,
        meta(f"How many volumes get a replica at the same time{_LATER}", minimum=1, maximum=64),
    ] = None
    resync_ki_bytes: Annotated[
        int | None,
        meta(f"How many KiB of a resync a second at most{_LATER}", minimum=1, maximum=10_000_000),
    ] = None


class Timeouts(Struct):
    """How long steps of workflows may take."""

    flip: Annotated[str | None, _duration(f"To flip the bond of one node, and to prove it{_LATER}")] = None
    verify: Annotated[str | None, _duration(f"To prove all paths between two nodes{_LATER}")] = None
    stall: Annotated[str | None, _duration(f"Without progress, until a resync is stuck{_LATER}")] = None
