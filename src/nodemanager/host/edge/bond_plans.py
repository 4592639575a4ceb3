"""A change of a bond and its progress; on disk, where agents of another version read it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Phase(StrEnum):
    """The progress of a change."""

    STAGED = "Staged"
    ARMED = "Armed"
    FIRED = "Fired"
    COMMITTED = "Committed"
    REVERTED = "Reverted"
    RESTORING = "Restoring"
    """The bond is being put back, or the process that did so was killed."""
    RESTORE_FAILED = "RestoreFailed"


class LinkBefore(msgspec.Struct, frozen=True):
    """How a bond, or a VLAN on it, was."""

    name: str
    mtu: int = 0
    up: bool = False
    addresses: tuple[str, ...] = ()
    """Addresses that files of systemd-networkd give it, with their prefix length."""
    leased: bool = False
    """Whether it had a leased IPv4 address, such as one from DHCP."""


class BondPlan(msgspec.Struct, frozen=True):
    """The content of a change."""

    bond: str
    mode: str
    before_mode: str
    slaves: tuple[str, ...]
    primary: str = ""
    before_primary: str = ""
    up: tuple[str, ...] = ()
    """Cards whose link was up when the change was staged: they must come back."""
    mac: str = ""
    """The MAC address of the bond, which it loses with its last card."""
    active: str = ""
    """The card that was active, which must be active again; empty = none was, or a primary card decides."""
    links: tuple[LinkBefore, ...] = ()
    """The bond and its VLANs; empty in plans that an agent of the previous version staged."""


class Arming(msgspec.Struct, frozen=True):
    """The dead-man."""

    unit: str
    deadline: str
    """For people, by the clock of the host."""
    until: float
    """Seconds since the boot at which it acts."""
    boot_id: str
