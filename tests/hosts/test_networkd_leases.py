"""What becomes of an address by DHCP while systemd-networkd is off for a change of a bond: a real one, with a
card that has nothing to do with the bond. The machine has no bonding, so the bond is a folder.
"""

from __future__ import annotations

from importlib import resources

import pytest

from nodemanager.host import edge
from nodemanager.host.edge import deadman
from nodemanager.host.edge.bond_plans import BondPlan
from nodemanager.host.edge.bond_records import SCRIPT
from support.fleet import until
from support.nspawn import Machine

PLAN = BondPlan("bondstor", "balance-rr", "active-backup", ("eth1", "eth2"))
ROOT, BIN = "/srv/leases", "/srv/leases-bin"
FOLDER = "/var/lib/nodemanager/bonds/leases"
SYSFS = {
    "flags": "0x1403",
    "bonding/mode": "balance-rr 0",
    "bonding/slaves": "eth1 eth2",
    "bonding/primary": "",
}
NETWORK = {
    "10-near.network": "[Match]\nName=near\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n",
    "10-far.network": "[Match]\nName=far\n\n[Network]\nAddress=10.5.0.1/24\nDHCPServer=yes\n",
}
IP = f"""#!/bin/sh
/usr/sbin/ip -4 -br address show dev near >>{ROOT}/seen
systemctl is-active systemd-networkd.service >>{ROOT}/seen
case $* in *"mode active-backup") echo active-backup 1 >{ROOT}/sys/class/net/bondstor/bonding/mode ;; esac
"""
"""Changes nothing but the folder, and writes down how the other card is meanwhile."""


def has_lease(machine: Machine) -> bool:
    return "10.5.0." in machine.run("ip", "-4", "-br", "address", "show", "dev", "near").stdout


@pytest.fixture(name="leased")
def _leased(machine: Machine) -> Machine:
    """The machine with systemd-networkd, which was given an address by DHCP just now."""
    machine.run("systemctl", "stop", "systemd-networkd.socket", "systemd-networkd.service")
    machine.run("ip", "link", "delete", "near", check=False)
    machine.run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far")
    for name, text in NETWORK.items():
        machine.write(f"/etc/systemd/network/{name}", text)
    machine.run("systemctl", "start", "systemd-networkd.socket", "systemd-networkd.service")
    until(lambda: has_lease(machine), "an address by DHCP")
    return machine


def test_a_plain_stop_takes_it_away(leased: Machine) -> None:
    """Which is why it is not stopped so."""
    leased.run("systemctl", "stop", "systemd-networkd.socket", "systemd-networkd.service")
    until(lambda: not has_lease(leased), "the address to be gone")


def test_a_change_of_a_bond_leaves_it(leased: Machine) -> None:
    leased.write(f"{FOLDER}/{SCRIPT}", (resources.files(edge) / SCRIPT).read_text(), 0o700)
    for path, text in SYSFS.items():
        leased.write(f"{ROOT}/sys/class/net/{PLAN.bond}/{path}", f"{text}\n")
    leased.write(f"{BIN}/ip", IP, 0o755)
    path = f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin"
    leased.run(*deadman.script(FOLDER, "revert", PLAN, ROOT), env={"PATH": path})
    seen = leased.read(f"{ROOT}/seen").splitlines()
    assert set(seen[1::2]) == {"inactive"}, "it was off"
    assert all("10.5.0." in line for line in seen[::2]), seen
    assert has_lease(leased)
    for unit in ("systemd-networkd.socket", "systemd-networkd.service"):
        assert leased.run("systemctl", "is-active", unit).stdout == "active\n"
    shown = leased.run("systemctl", "show", "--property=NRestarts,Result", "systemd-networkd.service").stdout
    assert set(shown.split()) == {"NRestarts=0", "Result=success"}
