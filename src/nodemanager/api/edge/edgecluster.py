"""EdgeCluster: an edge site, and how it is: one place for what is seen of it, and how old that is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Final

from nodemanager.api.edge import node_reports
from nodemanager.api.edge.edgeprofile import GROUP, VERSION
from nodemanager.api.edge.node_reports import MAX_POOLS, NodePool, NodeReport, NodeWork, ToldNode
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import NAME_MAX, PRINTABLE, REFERENCE, TEXT, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct
from nodemanager.kube.selectors import LabelSelector

BOOTSTRAP: Final = "Bootstrap"
SINGLE_NODE: Final = "SingleNode"
UPGRADING: Final = "Upgrading"
MULTI_NODE: Final = "MultiNode"
DEGRADED: Final = "Degraded"
RECOVERING: Final = "Recovering"
UNKNOWN: Final = "Unknown"
PHASES: Final = (BOOTSTRAP, SINGLE_NODE, UPGRADING, MULTI_NODE, DEGRADED, RECOVERING, UNKNOWN)
WELL: Final = (SINGLE_NODE, MULTI_NODE)
"""Phases in which no person has to act."""

BRIDGE: Final = "bridge"
AGENT: Final = "agent"

REQUIRE: Final = "require"
WARN: Final = "warn"

FRESH: Final = node_reports.FRESH
UNPROVEN: Final = node_reports.UNPROVEN
STALE: Final = node_reports.STALE
FUTURE: Final = "Future"
UNREADABLE: Final = "Unreadable"
GONE: Final = "Gone"
MISSING: Final = "Missing"
REFUSED: Final = "Refused"
UNANSWERED: Final = "Unanswered"
HEARTBEATS: Final = (FRESH, UNPROVEN, STALE, FUTURE, UNREADABLE, GONE)
ANSWERS: Final = (FRESH, STALE, MISSING, UNREADABLE, REFUSED, UNANSWERED)

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
NOT_OBSERVED: Final = "NotObserved"
LOOKED: Final = timedelta(minutes=2)
"""The operator says at least once a minute that it looked."""
MAX_NODES: Final = 128
MAX_EVENTS: Final = 5
RAW_MAX: Final = 256


class ProfileSignature(Struct):
    """Whose profile may be used."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.policy != 'require' || (has(self.keys) && size(self.keys) > 0)",
            "must have a key where a signature is required: nobody could sign otherwise",
            ".keys",
        ),
    )

    policy: Annotated[
        str,
        meta(
            "require: a profile that nobody signed whom we trust is not used; warn: it is, and that is said.",
            enum=(REQUIRE, WARN),
            required=True,
        ),
    ] = ""
    keys: Annotated[
        list[Annotated[str, meta("A key.", pattern="^[A-Za-z0-9+/]{56}$", max_length=56)]],
        meta("Public keys of minisign that we trust, in base64.", max_items=16),
    ] = []


class EdgeClusterSpec(Struct):
    """Which site, and whose."""

    profile: Annotated[
        str,
        meta("Name of the EdgeProfile.", pattern=REFERENCE, min_length=1, max_length=NAME_MAX, required=True),
    ] = ""
    signature: Annotated[ProfileSignature | None, meta("Who has to have signed the profile.")] = None
    nodes: Annotated[
        list[Annotated[str, meta("A node.", pattern=REFERENCE, min_length=1, max_length=NAME_MAX)]],
        meta(
            "Names of the nodes that the site has; others, and the lack of one, are told."
            " Empty: whoever is seen.",
            max_items=64,
        ),
    ] = []
    node_selector: Annotated[
        LabelSelector | None,
        meta("Which ManagedNodes of the namespace are nodes of the site. Absent: all of them."),
    ] = None


class UsedProfile(Struct):
    """The profile that the status was made with."""

    name: Annotated[str, meta("Its name.", max_length=NAME_MAX)] = ""
    version: Annotated[str, meta("Its version.", max_length=32)] = ""
    signed_by: Annotated[str, meta("Which key signed it; empty: none that we trust.", max_length=64)] = ""


class SeenProfile(Struct):
    """A version of a profile."""

    name: Annotated[str, meta("Name of the profile.", max_length=NAME_MAX)] = ""
    version: Annotated[str, meta("Its version.", max_length=32)] = ""


class ObservedState(Struct):
    """How far the DaemonSet is that is observed."""

    state: Annotated[
        str,
        meta("Its state, as the profile names it; empty: it is not known what it is now.", max_length=63),
    ] = ""
    raw_state: Annotated[
        str, meta("What its ConfigMap says, as it is.", pattern=PRINTABLE, max_length=RAW_MAX)
    ] = ""
    since: Annotated[str | None, meta("Since when the operator sees that.", format="date-time")] = None
    number: Annotated[
        int, meta("The how many-th state that is, from 1 on; 0: it is not known.", minimum=0)
    ] = 0
    furthest: Annotated[
        str, meta("The furthest state since it last did nothing.", pattern=PRINTABLE, max_length=63)
    ] = ""
    direction: Annotated[str, meta("Which way it goes, as it says.", pattern=PRINTABLE, max_length=63)] = ""
    lock_holder: Annotated[
        str, meta("Who holds its lock, as it says.", pattern=PRINTABLE, max_length=NAME_MAX)
    ] = ""


class EdgeInput(Struct):
    """Something that is looked at."""

    name: Annotated[str, meta("What is looked at.", required=True, pattern=PRINTABLE, max_length=600)] = ""
    state: Annotated[str, meta("How the last look went.", required=True, enum=ANSWERS)] = ""
    changed_at: Annotated[str | None, meta("When the operator last saw it change.", format="date-time")] = (
        None
    )
    digest: Annotated[str, meta("What tells one content from another.", max_length=64)] = ""
    message: Annotated[str, meta("What is wrong with it.", pattern=TEXT, max_length=1024)] = ""


class EdgeNode(Struct):
    """A node of the site."""

    name: Annotated[str, meta("Its name.", required=True, pattern=PRINTABLE, max_length=NAME_MAX)] = ""
    role: Annotated[str, meta("Its role, by the profile.", max_length=63)] = ""
    source: Annotated[str, meta("Who tells of its life.", enum=(BRIDGE, AGENT))] = ""
    heartbeat: Annotated[str, meta("How its signs of life are.", required=True, enum=HEARTBEATS)] = ""
    changed_at: Annotated[
        str | None, meta("When the operator last saw a new sign of life.", format="date-time")
    ] = None
    digest: Annotated[str, meta("What tells one sign of life from another.", max_length=64)] = ""
    gone_since: Annotated[str | None, meta("Since when it is gone.", format="date-time")] = None
    agent: Annotated[
        str, meta("Whether its agent is alive: True, False, or Unknown; empty: it has none.", max_length=16)
    ] = ""
    agent_digest: Annotated[
        str,
        meta("What tells one sign of life of its agent from another, where the bridge tells of its life.",
             max_length=64),
    ] = ""  # fmt: skip
    agent_changed_at: Annotated[
        str | None, meta("When the operator last saw a new one of its agent.", format="date-time")
    ] = None
    agent_version: Annotated[str, meta("Version of its agent.", pattern=PRINTABLE, max_length=256)] = ""
    kernel: Annotated[str, meta("Its kernel.", pattern=PRINTABLE, max_length=256)] = ""
    tasks: Annotated[int, meta("How many tasks it has that have not ended.", minimum=0)] = 0
    work: Annotated[NodeWork | None, meta("Of these the one that it is at, or that comes next.")] = None
    pools: Annotated[
        list[NodePool],
        meta("Its pools, where the storage that is looked at tells of them.", list_map_keys=("name",),
             max_items=MAX_POOLS),
    ] = []  # fmt: skip
    kubernetes: Annotated[
        ToldNode | None,
        meta("Its Node of Kubernetes; absent: the profile has none looked at (topology.observeNodes)."),
    ] = None
    report: Annotated[
        NodeReport | None,
        meta("What its agent tells of bond, links, DRBD and boot; absent: nothing, as without --edge."),
    ] = None
    message: Annotated[str, meta("What is wrong with it.", pattern=TEXT, max_length=1024)] = ""


class PartHealth(Struct):
    """How a part of the site is."""

    state: Annotated[
        str, meta("How it is.", required=True, enum=(HEALTHY, UNHEALTHY, NOT_OBSERVED, UNKNOWN))
    ] = ""
    said: Annotated[str, meta("What was said of it.", pattern=PRINTABLE, max_length=RAW_MAX)] = ""


class EdgeEvent(Struct):
    """A warning of the DaemonSet."""

    reason: Annotated[str, meta("Its reason.", pattern=PRINTABLE, max_length=128)] = ""
    message: Annotated[str, meta("What it says.", pattern=PRINTABLE, max_length=RAW_MAX)] = ""
    at: Annotated[str | None, meta("When it was last given, as the API has it.", format="date-time")] = None


class EdgeClusterStatus(Struct):
    """How the site is; written by the operator, from what it saw."""

    observed_generation: Annotated[int, meta("The metadata.generation this status is about.", minimum=0)] = 0
    phase: Annotated[str, meta("How it is.", enum=PHASES)] = ""
    since: Annotated[str | None, meta("Since when it is in this phase.", format="date-time")] = None
    reason: Annotated[str, meta("Why, as one word.", pattern="^[A-Za-z]*$", max_length=64)] = ""
    message: Annotated[str, meta("Why, for people.", pattern=TEXT, max_length=4096)] = ""
    observed_at: Annotated[
        str | None,
        meta("When the operator last looked; all else is as old as that.", format="date-time"),
    ] = None
    source: Annotated[str, meta("Who is believed: the bridge, or agents.", enum=(BRIDGE, AGENT))] = ""
    profile: Annotated[UsedProfile | None, meta("The profile that this was made with.")] = None
    newest_profile: Annotated[
        SeenProfile | None,
        meta("The highest version of the profile that this site was looked at with, and that was signed where"
             " spec.signature is there: an older one is told of, or refused."),
    ] = None  # fmt: skip
    bootstrapped: Annotated[bool, meta("Whether the site has ever been seen at work.")] = False
    nodes_text: Annotated[str, meta("How many nodes are alive, of how many.", max_length=16)] = ""
    observed: Annotated[ObservedState | None, meta("What the DaemonSet does.")] = None
    inputs: Annotated[list[EdgeInput], meta("What was looked at.", max_items=16)] = []
    nodes: Annotated[list[EdgeNode], meta("Its nodes.", max_items=MAX_NODES)] = []
    storage: Annotated[PartHealth | None, meta("The storage.")] = None
    network: Annotated[PartHealth | None, meta("The network.")] = None
    virtualisation: Annotated[PartHealth | None, meta("Virtual machines.")] = None
    events: Annotated[list[EdgeEvent], meta("The last warnings of the DaemonSet.", max_items=MAX_EVENTS)] = []
    conditions: Annotated[
        list[Condition],
        meta("What is right, and what is not.", list_map_keys=("type",), max_items=16),
    ] = []


class EdgeCluster(Struct):
    """An edge site: the nodes of this namespace, by the design of a profile. It is only looked at."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[EdgeClusterSpec, meta("Which site.", required=True)] = EdgeClusterSpec()
    status: Annotated[EdgeClusterStatus, meta("How it is.")] = EdgeClusterStatus()


def is_old(status: EdgeClusterStatus, now: datetime) -> bool:
    """Tell whether the last look is so old that the status cannot be taken as the present state."""
    looked = times.parse(status.observed_at)
    return looked is None or not -LOOKED <= now - looked <= LOOKED


EDGE_CLUSTERS: Final = Resource(GROUP, VERSION, "EdgeCluster", "edgeclusters", EdgeCluster)
