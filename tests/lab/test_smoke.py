"""Two hosts with kernels of their own: a bond of two cards, a VLAN on it, cables that break, and a replica.

CI runs this file alone (`make lab-smoke`): all that the rest of the lab stands on works.
"""

from __future__ import annotations

from functools import partial

import pytest

from support.fleet import until
from support.lab import linstor, networkd
from support.lab.guest import Guest
from support.lab.replica import Pair
from support.lab.site import BOND, NICS, VLAN, Site, address
from support.linstor import drbd_moments


def bonding(guest: Guest, name: str) -> str:
    return guest.says("cat", f"/sys/class/net/{BOND}/bonding/{name}")


def mii(guest: Guest, nic: str) -> str:
    return guest.says("cat", f"/sys/class/net/{nic}/bonding_slave/mii_status")


def sees_no_link(guest: Guest, nic: str) -> bool:
    return mii(guest, nic) == "down"


def test_two_hosts_with_a_kernel_of_their_own(site: Site) -> None:
    assert [guest.says("uname", "-n") for guest in site.guests] == ["node0", "node1"]
    for guest in site.guests:
        assert guest.run("systemctl", "is-system-running", check=False).stdout.strip() == "running"
        loaded = guest.says("modinfo", "--field=version", "drbd")
        assert loaded.startswith("8.4."), loaded


def test_systemd_networkd_makes_the_bond_and_the_vlan(site: Site) -> None:
    for node, guest in enumerate(site.guests):
        for name, text in networkd.files(node).items():
            guest.write(f"{networkd.FOLDER}/{name}", text)
        guest.run("networkctl", "reload")
    for guest in site.guests:
        until(partial(address_of, guest), f"an address of {guest.name}")
    assert [bonding(guest, "mode") for guest in site.guests] == ["active-backup 1"] * 2
    for guest in site.guests:
        assert set(bonding(guest, "slaves").split()) == set(NICS)
        assert guest.says("cat", "/proc/net/vlan/config").splitlines()[-1].split() == [
            f"{BOND}.{VLAN}", "|", str(VLAN), "|", BOND
        ]  # fmt: skip
    until(lambda: site.loss(0, pings=5) == 0, "an answer from the other node")


def address_of(guest: Guest) -> bool:
    return (
        "10.99.0." in guest.run("ip", "-br", "address", "show", "dev", f"{BOND}.{VLAN}", check=False).stdout
    )


def test_a_cable_that_is_pulled_out_is_seen_and_the_bond_goes_on_with_the_other(site: Site) -> None:
    site.bond("active-backup", "active-backup")
    assert (site.loss(0), site.loss(1)) == (0, 0)
    for guest in site.guests:
        guest.set_carrier("data0", up=False)
    site.lines[0, "data0"].cut = True
    for guest in site.guests:
        until(partial(sees_no_link, guest, "data0"), f"{guest.name} sees it")
        assert guest.says("cat", "/sys/class/net/data0/carrier") == "0"
        assert bonding(guest, "active_slave") == "data1"
    assert (site.loss(0), site.loss(1)) == (0, 0)


@pytest.mark.parametrize("mode", ["active-backup", "balance-rr"])
def test_a_cable_that_died_without_a_word_is_not_seen_by_the_bond(site: Site, mode: str) -> None:
    site.bond(mode, mode)
    site.lines[0, "data0"].cut = True
    assert site.loss(0) == pytest.approx(1 if mode == "active-backup" else 0.75, abs=0.1)
    assert [mii(guest, "data0") for guest in site.guests] == ["up", "up"]


def test_what_a_cable_loses_and_how_long_it_takes_is_what_the_test_says(site: Site) -> None:
    site.bond("active-backup", "active-backup")
    line = site.lines[0, "data0"]
    line.delay = 0.1
    said = site.guests[0].says("ping", "-q", "-n", "-c", "5", "-i", "0.2", address(1))
    assert float(said.rpartition("= ")[2].split("/")[0]) >= 200, "there and back again"
    line.delay, line.loss = 0.0, 0.5
    assert 0.5 < site.loss(0, pings=100) < 0.95, "three of four are lost on the way there or back"


def test_crossed_cables_are_noticed_only_where_the_active_cards_differ(site: Site) -> None:
    site.cross()
    site.bond("active-backup", "active-backup", active=("data0", "data1"))
    assert (site.loss(0), site.loss(1)) == (0, 0)
    site.bond("active-backup", "active-backup", active=("data0", "data0"))
    assert (site.loss(0), site.loss(1)) == (1, 1)


def test_a_replica_is_filled_over_the_bond_and_linstor_tells_of_it(site: Site) -> None:
    site.bond("balance-rr", "balance-rr")
    pair = Pair(site)
    pair.create()
    with linstor.controlling(pair) as controller:
        assert drbd_moments.differences("new", controller.verdict()) == []
        pair.sides[0].drbd("primary", "--force")
        pair.wait("SyncSource", "SyncTarget")
        assert drbd_moments.differences("syncing", controller.verdict()) == []
        pair.sync()
        assert drbd_moments.differences("established", controller.verdict()) == []
    pair.down()
