"""Prepares a change of a bond; it refuses, by name, settings that could not be restored."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nodemanager.api.common.edge_state import BondState
from nodemanager.host.base import HostError, Runner
from nodemanager.host.edge import bond_links, links, networkd_files
from nodemanager.host.edge.bond_plans import BondPlan

NO_PRIMARY: Final = "None"
WITHOUT_ARP: Final = ("802.3ad", "balance-tlb", "balance-alb")
"""Modes in which the kernel does not check links by ARP: it loses that setting."""
_ALWAYS: Final = "always"


async def planned(
    root: str | Path, run: Runner, found: BondState, mode: str, primary: str
) -> tuple[BondPlan, dict[str, str]]:
    """Return the change of a bond to a mode, and its files; raises HostError where it cannot be."""
    bond, names = found.name, tuple(one.name for one in found.slaves)
    if not names:
        raise HostError(f"cannot stage a change of {bond}: it has no cards")
    if primary and (primary not in names or mode not in networkd_files.WITH_PRIMARY):
        raise HostError(f"cannot make {primary} the primary card of {bond}: a bond of mode {mode} with"
                        f" the cards {', '.join(names)} has none such")  # fmt: skip
    _need_monitor(root, found, mode)
    await _need_networkd(run, bond)
    macs = {name: links.permanent_address(root, name) for name in names}
    files = networkd_files.changes(networkd_files.read(root), bond, mode, primary, macs)
    up = links.with_link(root, found)
    before = links.primary(root, bond)
    before = "" if before == NO_PRIMARY else before
    plan = BondPlan(
        bond, mode, found.mode, names, primary, before, tuple(one for one in names if one in up),
        links.address(root, bond), _active(root, found, before), await bond_links.before(root, run, bond),
    )  # fmt: skip
    return plan, files


def _active(root: str | Path, found: BondState, primary: str) -> str:
    """Return the card that sends, unless the kernel always goes back to a primary one by itself."""
    back = primary and links.option(root, found.name, "primary_reselect") in ("", _ALWAYS)
    return found.active if found.mode in networkd_files.WITH_PRIMARY and not back else ""


def _need_monitor(root: str | Path, found: BondState, mode: str) -> None:
    """Raise where the kernel forgets how the bond looks at its links, when its mode changes."""
    validate = links.option(root, found.name, "arp_validate")
    if mode != found.mode and validate not in ("", "none"):
        raise HostError(
            f"cannot change {found.name} to {mode}: its arp_validate is {validate}, which the kernel forgets"
            " with every change of the mode, and nobody would put it back; set ARPValidate=none"
        )
    if mode in WITHOUT_ARP and links.option(root, found.name, "arp_interval") not in ("", "0"):
        raise HostError(
            f"cannot change {found.name} to {mode}: it looks at its links by ARP (arp_interval), which this"
            " mode does not, and nobody would put it back; use MIIMonitorSec="
        )


async def _need_networkd(run: Runner, bond: str) -> None:
    argv = ["systemctl", "is-active", "--quiet", "systemd-networkd.service"]
    if (await run(argv, timeout=30.0)).returncode:
        raise HostError(
            f"cannot stage a change of {bond}: systemd-networkd does not run, so its files count nothing"
        )
