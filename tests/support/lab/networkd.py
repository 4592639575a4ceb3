"""Files of systemd-networkd that make the bond of a node, with a VLAN on it."""

from __future__ import annotations

from support.lab.site import BOND, VLAN, address

FOLDER = "/etc/systemd/network"
NETDEV = "10-stor.netdev"


def files(node: int, mode: str = "active-backup") -> dict[str, str]:
    """Return them by name."""
    return {
        NETDEV: f"[NetDev]\nName={BOND}\nKind=bond\n\n[Bond]\nMode={mode}\nMIIMonitorSec=100ms\n",
        "10-vlan.netdev": f"[NetDev]\nName={BOND}.{VLAN}\nKind=vlan\n\n[VLAN]\nId={VLAN}\n",
        "20-slaves.network": f"[Match]\nName=data*\n\n[Network]\nBond={BOND}\n",
        "30-bond.network": f"[Match]\nName={BOND}\n\n[Network]\nVLAN={BOND}.{VLAN}\nLinkLocalAddressing=no\n",
        "40-vlan.network": f"[Match]\nName={BOND}.{VLAN}\n\n[Network]\nAddress={address(node)}/24\n",
    }
