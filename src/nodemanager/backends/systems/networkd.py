"""The storage network of a node as files of systemd-networkd: a bond, its slaves, and VLANs on it. Pure.

Links are looked at (`MIIMonitorSec`, which is off by default), and addresses outlive a bond that is down
for a moment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from nodemanager.api.edge.profile_parts import ACTIVE_BACKUP, SiteNetwork
from nodemanager.backends.errors import Unusable

_DEVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
_WATCH: Final = "MIIMonitorSec=100ms\n"
_KEEP: Final = "ConfigureWithoutCarrier=yes\nIgnoreCarrierLoss=yes\nKeepConfiguration=static\n"


def bond_files(network: SiteNetwork, mode: str, slaves: Sequence[str]) -> dict[str, str]:
    """Return the files of a bond in a mode, by name; the first slave is the one that is preferred."""
    for name in slaves:
        if not _DEVICE.fullmatch(name):
            raise Unusable(f"cannot use the link {name[:32]!r}: that is no name of a network device")
    if len(slaves) < 2 or len(set(slaves)) != len(slaves):
        raise Unusable("cannot make a bond: name two or more different links")
    bond = network.bond
    vlans = "".join(f"VLAN={one.name}\n" for one in network.vlans)
    files = {
        f"10-{bond}.netdev": f"[NetDev]\nName={bond}\nKind=bond\n\n[Bond]\nMode={mode}\n{_WATCH}",
        f"10-{bond}.network": f"[Match]\nName={bond}\n\n[Network]\nLinkLocalAddressing=no\n{_KEEP}{vlans}",
    }
    for number, name in enumerate(slaves):
        first = "PrimarySlave=yes\n" if mode == ACTIVE_BACKUP and number == 0 else ""
        files[f"10-{bond}-{name}.network"] = f"[Match]\nName={name}\n\n[Network]\nBond={bond}\n{first}"
    for one in network.vlans:
        files[f"20-{one.name}.netdev"] = f"[NetDev]\nName={one.name}\nKind=vlan\n\n[VLAN]\nId={one.id}\n"
    return files
