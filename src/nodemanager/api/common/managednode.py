"""ManagedNode: one host, its declarations, and its reports.

People own `spec` and most labels; the agent of the host owns `status`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from nodemanager.api.common import host_data, node_conditions
from nodemanager.api.common.acting import Hold
from nodemanager.api.common.audit_chain import MAX_TOLD, MAX_TOLD_LINE, AuditChain
from nodemanager.api.common.configset import GROUP, VERSION
from nodemanager.api.common.edge_state import EdgeState
from nodemanager.api.common.left_drifts import LeftDrifts
from nodemanager.api.common.node_upgrades import UpcomingUpgrades, Upgrade
from nodemanager.api.common.orphans import Orphans
from nodemanager.kube import conditions as conditions_
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import (
    ASCII,
    DURATION,
    DURATION_MAX,
    HEX,
    INTERFACE,
    NAME_MAX,
    PATH_MAX,
    PRINTABLE,
    TEXT,
    meta,
)
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

LABEL_OS: Final = "nodemanager.io/os"
"""Label the agent sets: the ID of os-release, such as debian or arch."""

ANNOTATION_HOLD: Final = "upgrade.nodemanager/hold"
"""Annotation that, with any value, keeps a host from being upgraded."""

ANNOTATION_REBOOT: Final = "upgrade.nodemanager/reboot"
"""Annotation that, with the value `always`, makes a host reboot after every upgrade, needed or not."""

TAKE_BACK: Final = "common.nodemanager/take-back"
"""Annotation with which a person says, by the UID of the very ManagedNode as its value, that its host may
take back what it had as another ManagedNode."""


class WireGuardSpec(Struct):
    """Whether the host gets a WireGuard key pair of its own."""

    enabled: Annotated[
        bool,
        meta("Keep a key pair in the Secret wg-INTERFACE-NODE and publish its public half. Default false."),
    ] = False
    interface: Annotated[
        str, meta("Network interface the keys are for. Default wg0.", INTERFACE, max_length=15, default="wg0")
    ] = "wg0"


class ManagedNodeSpec(host_data.HasData):
    """What people decide about a host."""

    domain: Annotated[str, meta("DNS domain of the host, for templates.", max_length=NAME_MAX)] = ""
    reconcile_period: Annotated[
        str,
        meta(
            'How often the host looks at itself when nothing happens, such as "1h"; "0" = only when '
            "something does. Omitted = as its agent was started, which is 10m unless told otherwise.",
            DURATION,
            max_length=DURATION_MAX,
        ),
    ] = ""
    upgrade: Annotated[Upgrade | None, meta("When to upgrade; omitted = never by itself.")] = None
    wire_guard: Annotated[WireGuardSpec | None, meta("WireGuard keys; omitted = none.")] = None
    hold: Annotated[
        Hold | None,
        meta(
            "Keep the host as it is until a time: it goes on to look and report, and changes nothing. See "
            "nodemanager hold.",
            atomic=True,
        ),
    ] = None
    data: host_data.OfNode = {}


class Interface(Struct):
    """Addresses of a network interface, without prefix length."""

    ipv4: Annotated[
        list[Annotated[str, meta("An address.", pattern="^[0-9.]*$", max_length=15)]],
        meta("IPv4 addresses.", max_items=1024),
    ] = []
    ipv6: Annotated[
        list[Annotated[str, meta("An address.", pattern="^[0-9A-Fa-f:.]*$", max_length=45)]],
        meta("IPv6 addresses that are not link-local.", max_items=1024),
    ] = []


class AppliedConfigSet(Struct):
    """How a ConfigSet went on this host."""

    name: Annotated[
        str, meta("Name of the ConfigSet.", required=True, pattern=ASCII, max_length=NAME_MAX)
    ] = ""
    resource_version: Annotated[
        str, meta("The metadata.resourceVersion that was applied.", pattern=ASCII, max_length=64)
    ] = ""
    observed_generation: Annotated[
        int, meta("The metadata.generation that was applied; 0 = the agent does not say.", minimum=0)
    ] = 0
    last_applied: Annotated[
        str | None, meta("When it was last applied.", format="date-time", nullable=True)
    ] = None
    error: Annotated[str, meta("What went wrong; empty = nothing.", pattern=TEXT, max_length=32768)] = ""
    waiting: Annotated[
        str,
        meta(
            "What has yet to be applied because it waits for something, such as a Secret or the end of an "
            "execution; empty = nothing.",
            pattern=TEXT,
            max_length=32768,
        ),
    ] = ""
    conflicts: Annotated[
        list[Annotated[str, meta("A resource.", pattern=PRINTABLE)]],
        meta(
            "Resources held back because another ConfigSet says otherwise, such as "
            'file:/etc/motd (also in configset "base").',
            max_items=8192,
        ),
    ] = []
    held: Annotated[
        int, meta("Resources that wait for the end of a hold; observedGeneration is without them.", minimum=0)
    ] = 0
    revision: Annotated[
        int,
        meta("The revision that was applied, of a set that is rolled out in stages; 0 = none.", minimum=0),
    ] = 0
    digest: Annotated[str, meta("The digest of that revision.", pattern=HEX, max_length=64)] = ""


class SSHHostKey(Struct, omit_defaults=False):
    """Fingerprint of an SSH host key, in the terms of an SSHFP record."""

    algorithm: Annotated[
        int, meta("Key algorithm: 1 RSA, 2 DSA, 3 ECDSA, 4 Ed25519, 6 Ed448.", format="int32", required=True)
    ] = 0
    fingerprint_type: Annotated[
        int, meta("Hash of the fingerprint: 1 SHA-1, 2 SHA-256.", format="int32", required=True)
    ] = 0
    fingerprint: Annotated[
        str, meta("The fingerprint, in hex.", required=True, pattern=HEX, max_length=256)
    ] = ""


class WireGuardStatus(Struct, omit_defaults=False):
    """Public side of a WireGuard interface."""

    name: Annotated[str, meta("Network interface.", required=True, pattern="^[!-.0-~]*$", max_length=15)] = ""
    public_key: Annotated[
        str,
        meta(  # the agent of the Go project passes on what `wg show` says of an interface without a key
            "Public key, in base64.", required=True, pattern=r"^([0-9A-Za-z+/=]*|\(none\))$", max_length=64
        ),
    ] = ""
    listen_port: Annotated[int, meta("UDP port it listens on; 0 = unknown.", format="int32")] = 0


class Heartbeat(Struct):
    """Where the sign of life of the agent is."""

    lease_name: Annotated[
        str,
        meta(
            "Lease, in the namespace of the ManagedNode, that the agent renews.",
            pattern=ASCII,
            max_length=NAME_MAX,
        ),
    ] = ""


class DriftRecord(Struct):
    """One change made behind our back."""

    sequence: Annotated[
        int, meta("Counts the drifts of this host, from 1; none is reported twice.", required=True, minimum=1)
    ] = 0
    time: Annotated[str, meta("When it was noticed.", required=True, format="date-time")] = ""
    resource: Annotated[
        str,
        meta(
            "What it was about, such as file:/etc/motd.",
            required=True,
            pattern=PRINTABLE,
            max_length=PATH_MAX + 64,
        ),
    ] = ""
    outcome: Annotated[
        str,
        meta(
            "repaired = put back; observed = left alone, as its drift policy says; failed = could not be put "
            "back.",
            enum=("repaired", "observed", "failed"),
            required=True,
        ),
    ] = ""
    message: Annotated[
        str, meta("What differed, or why it could not be put back.", pattern=TEXT, max_length=4096)
    ] = ""
    policy: Annotated[
        str,
        meta(
            "Of what is left alone: in-turn = it waits for the turn of this host; escalate = it waits for a "
            "person.",
            pattern=ASCII,
            max_length=64,
        ),
    ] = ""
    found: Annotated[
        str,
        meta(
            "SHA-256 of the content that was found, of files that everybody may read.",
            pattern=HEX,
            max_length=64,
        ),
    ] = ""
    wanted: Annotated[
        str,
        meta(
            "SHA-256 of the declared content, of files that everybody may read.", pattern=HEX, max_length=64
        ),
    ] = ""
    took: Annotated[
        str,
        meta('From noticing it to having put it back, such as "3.2ms".', DURATION, max_length=DURATION_MAX),
    ] = ""
    by: Annotated[str, meta("Who did it, where the host can tell.", pattern=PRINTABLE, max_length=256)] = ""


class Drift(Struct, omit_defaults=False):
    """Changes made behind our back."""

    repaired: Annotated[int, meta("How many were undone since the agent was installed.", minimum=0)] = 0
    last_time: Annotated[
        str | None, meta("When the last one was undone.", format="date-time", nullable=True)
    ] = None
    last_resource: Annotated[
        str, meta("What it was about, such as file:/etc/motd.", pattern=PRINTABLE, max_length=PATH_MAX + 64)
    ] = ""
    observed: Annotated[int, meta("How many were seen and left alone, as told.", minimum=0)] = 0
    sequence: Annotated[int, meta("The newest drift that is reported here.", minimum=0)] = 0
    recent: Annotated[
        list[DriftRecord],
        meta("The newest drifts, oldest first.", list_map_keys=("sequence",), max_items=64),
    ] = []


class HostOperatingSystem(Struct):
    """What runs on a host, as its os-release says."""

    id: Annotated[str, meta("ID, such as debian.", pattern=ASCII, max_length=64)] = ""
    version: Annotated[
        str, meta('VERSION_ID, such as "12"; empty where there are none.', pattern=ASCII, max_length=64)
    ] = ""
    pretty_name: Annotated[
        str, meta("PRETTY_NAME, such as Debian GNU/Linux 12 (bookworm).", pattern=ASCII, max_length=256)
    ] = ""
    kernel: Annotated[str, meta("Kernel release, as in uname -r.", pattern=ASCII, max_length=256)] = ""


class ManagedNodeStatus(Struct):
    """What the agent saw on the host; never what was wished for."""

    # Templates of other hosts write addresses and keys of this one into their files, line by line. The
    # patterns keep a host that was broken into from adding lines of its own there; `api.reported` has the
    # the same rules for writers and readers.

    observed_generation: Annotated[int, meta("The metadata.generation this status is about.", minimum=0)] = 0
    conditions: Annotated[
        list[Condition],
        meta(
            "Ready, Progressing, Alive, Drifted, Contested, Conflicted, Watching, TokenRenewed, Duplicated, "
            "Labelled, Served, Recorded, Held and Escalated.",
            list_map_keys=("type",),
            max_items=64,
        ),
    ] = []
    agent_version: Annotated[
        str, meta("Version of the agent on the host.", pattern=ASCII, max_length=256)
    ] = ""
    release: Annotated[str, meta("Kernel release, as in uname -r.", pattern=ASCII, max_length=256)] = ""
    os: Annotated[HostOperatingSystem | None, meta("Operating system of the host.")] = None
    heartbeat: Annotated[Heartbeat | None, meta("Sign of life, kept out of this object to spare writes.")] = (
        None
    )
    last_seen: Annotated[
        str | None,
        meta(
            "When the operator last saw a sign of life of a host that is silent; absent while it is alive.",
            format="date-time",
            nullable=True,
        ),
    ] = None
    drift: Annotated[Drift | None, meta("What was changed on the host and put back.")] = None
    left_drifts: Annotated[
        LeftDrifts | None, meta("What was changed and waits, for the turn of this host or for a person.")
    ] = None
    configsets: Annotated[
        list[AppliedConfigSet],
        meta(
            "Every ConfigSet that matches the host, with its result.", list_map_keys=("name",), max_items=4096
        ),
    ] = []
    orphans: Annotated[Orphans | None, meta("What is there although no set declares it any more.")] = None
    interfaces: Annotated[
        dict[str, Interface],
        meta("Network interfaces that are up and have addresses, by name.", max_properties=4096),
    ] = {}
    ssh_host_keys: Annotated[
        list[SSHHostKey],
        meta("Fingerprints of the SSH host keys, for SSHFP records.", max_items=256),
    ] = []
    wire_guard: Annotated[
        list[WireGuardStatus],
        meta("WireGuard interfaces and their public keys.", list_map_keys=("name",), max_items=256),
    ] = []
    file_backups: Annotated[
        dict[str, Annotated[str, meta("A SHA-256.", pattern=HEX)]],
        meta(
            "SHA-256 of the content a managed file had before it was first replaced, by path.",
            max_properties=65536,
        ),
    ] = {}
    last_file_bucket_gc: Annotated[
        str | None,
        meta("When old backups were last removed on the host.", format="date-time", nullable=True),
    ] = msgspec.field(default=None, name="lastFileBucketGC")
    last_upgrade: Annotated[
        str | None, meta("When the last upgrade was done.", format="date-time", nullable=True)
    ] = None
    upgrade: Annotated[
        UpcomingUpgrades | None,
        meta("Upgrades to come or under way; absent = none, as the spec is, or on hold."),
    ] = None
    kubernetes_node_cordoned: Annotated[
        str | None,
        meta(
            "Since when the agent keeps the Node of the same name cordoned.",
            format="date-time",
            nullable=True,
        ),
    ] = None
    jailed: Annotated[bool, meta("Whether the agent runs inside a FreeBSD jail.")] = False
    edge: Annotated[
        EdgeState | None,
        meta("Links, bonds, DRBD and boot of a host of an edge site; absent unless its agent has --edge."),
    ] = None
    audit_chain: Annotated[
        AuditChain | None,
        meta("The end of the host's own chain of what was done on it; absent = it has none."),
    ] = None
    audit_records: Annotated[
        list[Annotated[str, meta("A record, as its line is.", pattern=PRINTABLE, max_length=MAX_TOLD_LINE)]],
        meta(
            "The newest records of that chain, and those before them of what people did on the host and of"
            " drifts. The operator takes these two sorts to its log.",
            max_items=MAX_TOLD,
        ),
    ] = []


def upgrading_since(status: ManagedNodeStatus) -> str | None:
    """Return since when a host is being upgraded according to its spec; None = it is not."""
    started = status.upgrade.started_at if status.upgrade is not None else None
    return started or status.kubernetes_node_cordoned


class ManagedNode(Struct):
    """A host: what people decide about it, and what its agent reports."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManagedNodeSpec, meta("What people decide about the host.")] = ManagedNodeSpec()
    status: Annotated[ManagedNodeStatus, meta("What the agent saw on it.")] = ManagedNodeStatus()


def is_silent(node: ManagedNode) -> bool:
    """Tell whether a host is known to be silent, so that nothing it reported counts any more."""
    found = conditions_.get(node.status.conditions, node_conditions.ALIVE)
    return found is not None and found.status == conditions_.FALSE


def is_held(node: ManagedNode) -> bool:
    """Tell whether a host says that it is held, so that it changes nothing."""
    return conditions_.is_true(node.status.conditions, node_conditions.HELD)


MANAGED_NODES: Final = Resource(GROUP, VERSION, "ManagedNode", "managednodes", ManagedNode)
