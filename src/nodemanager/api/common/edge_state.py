"""What a host of an edge site reports of links, bonds, VLANs, DRBD and boot, if its agent is told to.

One model for DRBD 8.4 and 9. What is not known is absent or empty, never a value that looks healthy.
"""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.kube.hints import ASCII, NAME_MAX, TEXT, meta
from nodemanager.kube.objects import Struct

MAX_LINKS: Final = 64
MAX_BONDS: Final = 16
MAX_SLAVES: Final = 16
MAX_VLANS: Final = 64
MAX_RESOURCES: Final = 128
MAX_VOLUMES: Final = 16
MAX_PEERS: Final = 31
MAX_LINK_NAME: Final = 15
MAX_WORD: Final = 64
MAX_MESSAGE: Final = 512
DISKLESS: Final = "Diskless"
_LINK_NAME: Final = "^[!-.0-~]*$"


class LinkState(Struct):
    """A network card, a bond, or a VLAN."""

    name: Annotated[str, meta("Its name.", required=True, pattern=_LINK_NAME, max_length=MAX_LINK_NAME)] = ""
    mac: Annotated[str, meta("Its hardware address.", pattern="^[0-9a-f:]*$", max_length=59)] = ""
    state: Annotated[str, meta("operstate, such as up or down.", pattern=ASCII, max_length=MAX_WORD)] = ""
    carrier: Annotated[bool, meta("Whether it has a carrier; false also where it is down.")] = False
    mtu: Annotated[int, meta("Its MTU; 0 = unknown.", minimum=0)] = 0
    speed: Annotated[int, meta("In Mbit/s; 0 = unknown.", minimum=0)] = 0
    master: Annotated[
        str, meta("The bond or bridge it is in.", pattern=_LINK_NAME, max_length=MAX_LINK_NAME)
    ] = ""


class BondSlave(Struct):
    """A card in a bond."""

    name: Annotated[str, meta("Its name.", required=True, pattern=_LINK_NAME, max_length=MAX_LINK_NAME)] = ""
    state: Annotated[
        str, meta("active or backup; in balance-rr all are active.", pattern=ASCII, max_length=MAX_WORD)
    ] = ""
    mii: Annotated[
        str, meta("What the monitor of the bond says: up or down.", pattern=ASCII, max_length=MAX_WORD)
    ] = ""
    failures: Annotated[int, meta("How often its link was lost.", minimum=0)] = 0


class BondState(Struct):
    """A bond, as the kernel has it; files may say otherwise."""

    name: Annotated[str, meta("Its name.", required=True, pattern=_LINK_NAME, max_length=MAX_LINK_NAME)] = ""
    mode: Annotated[str, meta("Its mode, such as active-backup.", pattern=ASCII, max_length=MAX_WORD)] = ""
    state: Annotated[str, meta("operstate, such as up or down.", pattern=ASCII, max_length=MAX_WORD)] = ""
    mtu: Annotated[int, meta("Its MTU; 0 = unknown.", minimum=0)] = 0
    monitor: Annotated[
        int,
        meta("How often its links are looked at, in milliseconds: miimon, or arp_interval. 0 = they are not"
             " monitored, and mii of its cards means nothing.", minimum=0),
    ] = 0  # fmt: skip
    active: Annotated[
        str, meta("The card that sends, in active-backup.", pattern=_LINK_NAME, max_length=MAX_LINK_NAME)
    ] = ""
    slaves: Annotated[list[BondSlave], meta("Its cards.", list_map_keys=("name",), max_items=MAX_SLAVES)] = []


class VlanState(Struct):
    """A VLAN on a link."""

    name: Annotated[str, meta("Its name.", required=True, pattern=_LINK_NAME, max_length=MAX_LINK_NAME)] = ""
    id: Annotated[int, meta("Its number; 0 = unknown.", minimum=0, maximum=4095)] = 0
    link: Annotated[str, meta("The link below it.", pattern=_LINK_NAME, max_length=MAX_LINK_NAME)] = ""
    state: Annotated[str, meta("operstate, such as up or down.", pattern=ASCII, max_length=MAX_WORD)] = ""


class BondChange(Struct):
    """A change of a bond that was staged on this host by a task."""

    bond: Annotated[str, meta("The bond.", required=True, pattern=_LINK_NAME, max_length=MAX_LINK_NAME)] = ""
    phase: Annotated[
        str,
        meta("Staged, Armed, Committed, Reverted, or Fired: the dead-man has put it back; Restoring or"
             " RestoreFailed while that is not so.", pattern=ASCII, max_length=MAX_WORD),
    ] = ""  # fmt: skip
    mode: Annotated[str, meta("The mode that was wanted.", pattern=ASCII, max_length=MAX_WORD)] = ""
    deadline: Annotated[
        str | None,
        meta("While armed: when the dead-man puts it back, by the clock of the host.", format="date-time",
             nullable=True),
    ] = None  # fmt: skip


_CLIENT: Final = (
    "Where the disk is Diskless: whether there shall be none, as of a client or of who breaks ties; absent ="
    " not known. Without that, the disk is lost."
)


class DrbdVolume(Struct):
    """A volume of a resource, on this host."""

    volume: Annotated[int, meta("Its number; absent = 0.", minimum=0)] = 0
    minor: Annotated[int, meta("Its minor number.", minimum=0)] = 0
    disk: Annotated[str, meta("State of its disk, such as UpToDate.", pattern=ASCII, max_length=MAX_WORD)] = (
        ""
    )
    client: Annotated[bool | None, meta(_CLIENT)] = None
    quorum: Annotated[
        bool | None,
        meta("Whether it sees enough of its peers to be written to; absent = not known, as of 8.4, which has"
             " no such thing."),
    ] = None  # fmt: skip


class DrbdPeerVolume(Struct):
    """The same volume, on a peer."""

    volume: Annotated[int, meta("Its number; absent = 0.", minimum=0)] = 0
    replication: Annotated[
        str, meta("Such as Established, SyncSource or VerifyS.", pattern=ASCII, max_length=MAX_WORD)
    ] = ""
    disk: Annotated[
        str, meta("State of the peer's disk, as this host knows it.", pattern=ASCII, max_length=MAX_WORD)
    ] = ""
    client: Annotated[bool | None, meta(_CLIENT)] = None
    out_of_sync: Annotated[
        int | None,
        meta("KiB that are known to differ; absent = unknown. It counts only while connected, and only if"
             " the peer says 0, too.", minimum=0),
    ] = None  # fmt: skip
    resync_suspended: Annotated[
        str,
        meta("no, or by whom: user (this host), peer, dependency.", pattern=ASCII, max_length=MAX_WORD),
    ] = ""
    done: Annotated[
        int | None, meta("Percent of a resync or verify that is done.", minimum=0, maximum=100)
    ] = None


class DrbdPeer(Struct):
    """A host that a resource is replicated to."""

    name: Annotated[
        str, meta("Name of the connection.", required=True, pattern=ASCII, max_length=NAME_MAX)
    ] = ""
    node_id: Annotated[int, meta("Its node ID; 0 in 8.4, which has one peer only.", minimum=0)] = 0
    connection: Annotated[
        str, meta("State of the connection, such as Connected.", pattern=ASCII, max_length=MAX_WORD)
    ] = ""
    role: Annotated[str, meta("Role of the peer.", pattern=ASCII, max_length=MAX_WORD)] = ""
    volumes: Annotated[list[DrbdPeerVolume], meta("Volumes there.", max_items=MAX_VOLUMES)] = []


class DrbdResource(Struct):
    """A resource of DRBD."""

    name: Annotated[str, meta("Its name.", required=True, pattern=ASCII, max_length=NAME_MAX)] = ""
    role: Annotated[str, meta("Role of this host, such as Primary.", pattern=ASCII, max_length=MAX_WORD)] = ""
    suspended: Annotated[
        str,
        meta("no, or why IO is suspended: user, no-data, fencing, quorum.", pattern=ASCII,
             max_length=MAX_WORD),
    ] = ""  # fmt: skip
    volumes: Annotated[list[DrbdVolume], meta("Volumes here.", max_items=MAX_VOLUMES)] = []
    peers: Annotated[list[DrbdPeer], meta("Peers; none = it has no connection.", max_items=MAX_PEERS)] = []


class DrbdState(Struct):
    """DRBD of the host; absent where its module is not loaded."""

    version: Annotated[str, meta("Version of the kernel's module.", pattern=ASCII, max_length=MAX_WORD)] = ""
    resources: Annotated[
        list[DrbdResource],
        meta("Its resources; where there are too many, those that are unwell first.",
             list_map_keys=("name",), max_items=MAX_RESOURCES),
    ] = []  # fmt: skip
    omitted: Annotated[int, meta("How many more there are.", minimum=0)] = 0
    omitted_unwell: Annotated[
        int | None, meta("How many of these are not known to be well; absent: not told.", minimum=0)
    ] = None
    error: Annotated[str, meta("Why its state is not known.", pattern=TEXT, max_length=MAX_MESSAGE)] = ""


class BootState(Struct):
    """What a host with several boot entries has booted."""

    entry: Annotated[
        str,
        meta("active, passive (after an upgrade: it failed, and fell back), recovery, livecd, autoreset, or"
             " unknown.", pattern=ASCII, max_length=MAX_WORD),
    ] = ""  # fmt: skip
    uki: Annotated[bool, meta("Whether it boots unified kernel images.")] = False
    version: Annotated[str, meta("Version of its image.", pattern=ASCII, max_length=256)] = ""


class EdgeState(Struct):
    """What is only looked at on hosts of edge sites."""

    changed_at: Annotated[
        str | None,
        meta("Since when it is like this, by the clock of the host.", format="date-time", nullable=True),
    ] = None
    boot: Annotated[BootState | None, meta("What was booted; absent where there is one way to boot.")] = None
    links: Annotated[
        list[LinkState], meta("Cards, bonds and VLANs.", list_map_keys=("name",), max_items=MAX_LINKS)
    ] = []
    bonds: Annotated[list[BondState], meta("Its bonds.", list_map_keys=("name",), max_items=MAX_BONDS)] = []
    vlans: Annotated[list[VlanState], meta("Its VLANs.", list_map_keys=("name",), max_items=MAX_VLANS)] = []
    bond_changes: Annotated[
        list[BondChange],
        meta("Changes of bonds by tasks.", list_map_keys=("bond",), max_items=MAX_BONDS),
    ] = []
    drbd: Annotated[DrbdState | None, meta("DRBD; absent where it is not loaded.")] = None
    error: Annotated[str, meta("What could not be looked at.", pattern=TEXT, max_length=MAX_MESSAGE)] = ""
