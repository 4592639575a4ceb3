"""Steps for hosts of edge sites: bonds, links, DRBD and Kairos. Only agents with --edge do them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.kube.hints import DURATION_MAX, POSITIVE_DURATION, PRINTABLE, WORD, Rule, meta
from nodemanager.kube.objects import Struct

EDGE_ACTIONS: Final = (
    "bond_stage", "bond_arm", "bond_flip", "bond_commit", "bond_revert", "link_probe",
    "drbd_pause", "drbd_resume", "drbd_verify", "oem_file", "kairos_upgrade", "kairos_stage",
)  # fmt: skip
MODES: Final = (
    "balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb",
)  # fmt: skip
LINK_NAME: Final = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
LINK_MAX: Final = 15
MIN_DEADLINE: Final = 30
MAX_DEADLINE: Final = 3600
OEM_NETWORK: Final = "95_nodemanager_network.yaml"
"""The owner of a node's network in /oem of Kairos, the same for all of our writers, as two would conflict."""
_RESOURCE: Final = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
_OEM_NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\.(yaml|yml)$"
_IMAGE: Final = "^(oci|docker|file|dir):[A-Za-z0-9/._:@-]+$"
_STAGE: Final = "^[a-z][a-z0-9.-]*$"
_SESSION: Final = "^[A-Za-z0-9][A-Za-z0-9_.-]*$"
_ADDRESS: Final = "^[0-9A-Fa-f.:]*$"

Bond = Annotated[
    str, meta("Name of the bond.", required=True, pattern=LINK_NAME, min_length=1, max_length=LINK_MAX)
]
Mode = Annotated[str, meta("The mode that is staged; another one is refused.", required=True, enum=MODES)]


class BondStageAction(Struct):
    """Prepare another mode of a bond: new files beside those that count, and copies of these."""

    bond: Bond = ""
    mode: Annotated[str, meta("The mode that it shall have.", required=True, enum=MODES)] = ""
    from_mode: Annotated[
        str, meta("The mode that it has to have now, unless it has the new one; omitted = any.", enum=MODES)
    ] = ""
    primary: Annotated[
        str,
        meta("The card that sends as long as it can, in active-backup; the same on both ends of direct"
             " cables.", pattern=f"^$|{LINK_NAME}", max_length=LINK_MAX),
    ] = ""  # fmt: skip


class BondArmAction(Struct):
    """Start the dead-man: it puts files and mode back by itself, unless the change is committed in time."""

    bond: Bond = ""
    mode: Mode = ""
    deadline: Annotated[
        str,
        meta("How long it waits; 30s at least, 1h at most, default 5m. Twice as long as all hosts need to"
             " flip and to be looked at.",
             Rule(f"self == '' || ({POSITIVE_DURATION.rule} && duration(self) >= duration('{MIN_DEADLINE}s')"
                  f" && duration(self) <= duration('{MAX_DEADLINE}s'))",
                  'must be a duration from "30s" to "1h"'),
             max_length=DURATION_MAX),
    ] = ""  # fmt: skip


class BondFlipAction(Struct):
    """Give a bond the mode that is staged, in the kernel; only while the dead-man waits."""

    bond: Bond = ""
    mode: Mode = ""


class BondCommitAction(Struct):
    """Keep the mode: stop the dead-man, and put the new files in place."""

    bond: Bond = ""
    mode: Mode = ""


class BondRevertAction(Struct):
    """Put back files and mode of a bond now, as the dead-man would."""

    bond: Bond = ""


class PathProbe(Struct):
    """Frames over every card of a bond, to the same cards of a peer that probes, too, and back."""

    bond: Bond = ""
    session: Annotated[
        str,
        meta("What this probe is called, on both ends alike; frames of others do not count.", required=True,
             pattern=_SESSION, min_length=1, max_length=63),
    ] = ""  # fmt: skip
    frames: Annotated[
        int, meta("How many have to arrive on every card; default 10.", minimum=1, maximum=1000)
    ] = 0
    cards: Annotated[
        int,
        meta("How many cards the bond has at least; omitted = those that are in it now, which are fewer"
             " where one was lost.", minimum=1, maximum=64),
    ] = 0  # fmt: skip


class LossProbe(Struct):
    """Pings to an address of a peer, of a size, of which none may be lost."""

    address: Annotated[
        str, meta("The address.", required=True, pattern=_ADDRESS, min_length=2, max_length=45)
    ] = ""
    interface: Annotated[
        str,
        meta("The link to send from; its MTU is the size of the pings, which are not fragmented. Omitted = as"
             " routes say, and small pings.", pattern=f"^$|{LINK_NAME}", max_length=LINK_MAX),
    ] = ""  # fmt: skip
    count: Annotated[
        int,
        meta("How many pings; default 50: where every second packet is lost, a single one may pass.",
             minimum=2, maximum=10000),
    ] = 0  # fmt: skip


class LinkProbeAction(Struct):
    """Prove that links carry what they shall; asked until it holds or the time is up. Nothing is changed."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.paths) || has(self.loss)", "must have paths, loss, or both"),
    )

    paths: Annotated[PathProbe | None, meta("Every card by itself.", atomic=True)] = None
    loss: Annotated[LossProbe | None, meta("All of them together.", atomic=True)] = None


class _OfResource(Struct):
    """What is about one resource of DRBD."""

    resource: Annotated[
        str, meta("Name of the resource.", required=True, pattern=_RESOURCE, min_length=1, max_length=128)
    ] = ""


class DrbdPauseAction(_OfResource):
    """Pause resyncs of a resource, by the flag of this host; new writes are replicated all the same."""


class DrbdResumeAction(_OfResource):
    """Take the flag of this host back; that of a peer is the peer's."""


class DrbdVerifyAction(_OfResource):
    """Compare a resource with all peers, block by block; succeeds if nothing differs."""


class OemFileAction(Struct):
    """A file in /oem of Kairos, checked by kairos-agent; it counts from the next boot on."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.content) && self.content != '') != (has(self.bond) && self.bond != '')",
            "must have either content or bond",
        ),
        Rule(
            "!has(self.content) || self.content == '' || (has(self.name) && self.name != '')",
            "must have a name where it has content",
        ),
    )

    name: Annotated[
        str,
        meta(f"Its name: files are read in the order of names, and the last one that writes a path wins."
             f" Omitted, with bond = {OEM_NETWORK}, which nodemanager edge bond prints, too.",
             pattern=f"^$|{_OEM_NAME}", max_length=128),
    ] = ""  # fmt: skip
    content: Annotated[str, meta("What it contains: stages of yip, in YAML.", max_length=65536)] = ""
    bond: Annotated[
        str,
        meta("Have it write all files that make this bond, which else are gone with a reboot.",
             pattern=f"^$|{LINK_NAME}", max_length=LINK_MAX),
    ] = ""  # fmt: skip


class KairosUpgradeAction(Struct):
    """Put another image of Kairos on the host; a later step reboots into it."""

    source: Annotated[
        str,
        meta("The image, such as oci:registry.example/os:v2.", WORD, required=True, pattern=_IMAGE,
             min_length=1, max_length=512),
    ] = ""  # fmt: skip
    recovery: Annotated[bool, meta("Upgrade the recovery image instead of the active one.")] = False


class KairosStageAction(Struct):
    """Run one stage of Kairos now, as it is at boot."""

    stage: Annotated[
        str, meta("The stage, such as network.", required=True, pattern=_STAGE, min_length=1, max_length=63)
    ] = ""
    path: Annotated[
        str,
        meta("Only what this file or folder says.", Rule("self == '' || self.startsWith('/')",
             "must be a whole path"), pattern=PRINTABLE, max_length=1024),
    ] = ""  # fmt: skip
