"""What a change of a bond is, and how far it is; kept on disk, where agents of another version read it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Phase(StrEnum):
    """How far a change is."""

    STAGED = "Staged"
    ARMED = "Armed"
    FIRED = "Fired"
    COMMITTED = "Committed"
    REVERTED = "Reverted"
    RESTORING = "Restoring"
    """It is being put back, or who did that was killed."""
    RESTORE_FAILED = "RestoreFailed"


class LinkBefore(msgspec.Struct, frozen=True):
    """How a bond, or a VLAN on it, was."""

    name: str
    mtu: int = 0
    up: bool = False
    addresses: tuple[str, ...] = ()
    """Those that files of systemd-networkd give it, with the length of their prefix."""
    leased: bool = False
    """Whether it had an address of IPv4 for a time, as by DHCP."""


class BondPlan(msgspec.Struct, frozen=True):
    """What is changed."""

    bond: str
    mode: str
    before_mode: str
    slaves: tuple[str, ...]
    primary: str = ""
    before_primary: str = ""
    up: tuple[str, ...] = ()
    """Cards whose link was up when it was staged: they have to come back."""
    mac: str = ""
    """The address of the bond, which it loses with its last card."""
    active: str = ""
    """The card that did send, which is to do so again; empty = none did, or a primary card decides."""
    links: tuple[LinkBefore, ...] = ()
    """The bond and its VLANs; empty in what an agent of the version before staged."""


class Arming(msgspec.Struct, frozen=True):
    """The dead-man."""

    unit: str
    deadline: str
    """For people, by the clock of the host."""
    until: float
    """Seconds since the boot at which it acts."""
    boot_id: str
