"""What is on a bond is there again before a change of it is kept: VLANs, addresses, MTUs, links."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager.host.base import HostError
from nodemanager.host.edge import bond_changes, bond_links
from nodemanager.host.edge.networkd_files import Found
from support.edge_host import AFTER, BEFORE, BOND, NETDEV, VLAN, EdgeHost

SECONDS = 300
OURS, FOREIGN = "10.99.0.1/24", "10.99.0.100/32"


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EdgeHost:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    monkeypatch.setattr(bond_changes, "ADDRESSED", 0.0)
    host = EdgeHost(tmp_path)
    host.make()
    return host


async def armed(host: EdgeHost) -> None:
    await host.changes().stage(BOND, AFTER, BEFORE, "")
    await host.changes().arm(BOND, AFTER, SECONDS, "a")


async def flipped(host: EdgeHost) -> None:
    await armed(host)
    await host.changes().flip(BOND, AFTER, 30)


async def test_the_addresses_of_a_vlan_are_there_again(host: EdgeHost) -> None:
    host.vlan(OURS, FOREIGN, "FD00:0::1/64", "fe80::1/64", said=[OURS, "fd00::1/64", "10.1.1.1/24"])
    await flipped(host)
    host.addresses(VLAN, OURS, "fd00::1/64")
    evidence = await host.changes().commit(BOND, AFTER)
    assert evidence["mode"] == AFTER, "what files do not say is somebody else's"


@pytest.mark.parametrize("left", [[], [OURS], ["fd00::1/64"]])
async def test_an_address_that_is_lost_fails_flip_commit_and_revert(host: EdgeHost, left: list[str]) -> None:
    host.vlan(OURS, "fd00::1/64", said=[OURS, "fd00::1/64"])
    await armed(host)
    host.addresses(VLAN, *left)
    gone = OURS if OURS not in left else "fd00::1/64"
    said = f"{VLAN} does not have its address {gone}"
    with pytest.raises(HostError, match=f"cannot flip {BOND}: {said}"):
        await host.changes().flip(BOND, AFTER, 30)
    with pytest.raises(HostError, match=f"cannot commit the change of {BOND}: {said}"):
        await host.changes().commit(BOND, AFTER)
    assert [one.phase for one in host.changes().observe()] == ["Armed"], "the dead-man has the last word"
    with pytest.raises(HostError, match=f"cannot put {BOND} back: {said}"):
        await host.changes().revert(BOND)
    host.addresses(VLAN, OURS, "fd00::1/64")
    await host.changes().revert(BOND)


async def test_a_commit_waits_for_addresses(host: EdgeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.vlan(OURS, said=[OURS])
    await flipped(host)
    monkeypatch.setattr(bond_changes, "ADDRESSED", 60.0)
    host.addresses(VLAN)
    looked = bond_links.show

    def come(link: str) -> list[str]:
        if link == VLAN:
            host.addresses(VLAN, OURS)  # there at the next look
        return looked(link)

    with monkeypatch.context() as coming:
        coming.setattr(bond_links, "show", come)
        assert (await host.changes().commit(BOND, AFTER))["mode"] == AFTER


async def test_an_address_that_was_lent_may_be_another_one_and_is_awaited_by_a_commit(host: EdgeHost) -> None:
    """Over one half-flipped bond DHCP may need its time: the flip and the way back do not depend on it."""
    host.vlan("10.2.0.7/24", lent=True)
    await armed(host)
    host.addresses(VLAN, "fe80::1/64")
    await host.changes().flip(BOND, AFTER, 30)
    with pytest.raises(HostError, match=f"{VLAN} does not have an address by DHCP, as it had"):
        await host.changes().commit(BOND, AFTER)
    host.addresses(VLAN, "10.2.0.9/24", lent=True)
    await host.changes().commit(BOND, AFTER)
    host.addresses(VLAN)
    await host.changes().revert(BOND)


async def test_without_any_link_there_need_not_be_addresses(host: EdgeHost) -> None:
    """systemd-networkd takes them away then; why a change is taken back may be just that."""
    host.vlan(OURS, said=[OURS])
    await flipped(host)
    await host.changes().revert(BOND)
    host.link(f"{BOND}/operstate", "down")
    host.addresses(VLAN)
    assert (await host.changes().revert(BOND))["down"] == BOND


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param(f"{VLAN}/mtu", "1500", f"the MTU of {VLAN} is 1500, and not 9000", id="mtu of a VLAN"),
        pytest.param(f"{BOND}/mtu", "1500", f"the MTU of {BOND} is 1500, and not 9000", id="mtu"),
        pytest.param(f"{VLAN}/flags", "0x1002", f"{VLAN} is switched off", id="off"),
        pytest.param(f"{VLAN}/mtu", "", f"{VLAN} is gone", id="gone"),
    ],
)
async def test_a_vlan_that_is_not_as_it_was(host: EdgeHost, name: str, text: str, said: str) -> None:
    host.vlan()
    await flipped(host)
    host.link(name, text)
    with pytest.raises(HostError, match=f"cannot commit the change of {BOND}: {said}"):
        await host.changes().commit(BOND, AFTER)


async def test_other_links_on_a_bond_may_go(host: EdgeHost) -> None:
    """As that of a virtual machine which is stopped meanwhile."""
    host.link("macvtap0/mtu", "1500")
    (host.root / f"sys/class/net/{BOND}/upper_macvtap0").symlink_to("../macvtap0")
    await flipped(host)
    (host.root / f"sys/class/net/{BOND}/upper_macvtap0").unlink()
    (host.root / "sys/class/net/macvtap0/mtu").unlink()
    await host.changes().commit(BOND, AFTER)


async def test_addresses_that_cannot_be_seen_are_not_believed_to_be_there(host: EdgeHost) -> None:
    host.vlan(OURS, said=[OURS])
    await flipped(host)
    (host.world / "addresses" / VLAN).write_text("none")
    with pytest.raises(HostError, match=f"cannot see the addresses of {VLAN}"):
        await host.changes().commit(BOND, AFTER)
    with pytest.raises(HostError, match=f"cannot see the addresses of {VLAN}"):
        await host.changes().revert(BOND)


@pytest.mark.parametrize("carrier", ["0", "1"])
async def test_a_bond_that_nobody_monitors_is_judged_by_the_carrier_of_its_cards(
    host: EdgeHost, carrier: str
) -> None:
    """Of one without miimon and arp_interval the kernel says that all links are up."""
    host.link(f"{BOND}/bonding/miimon", "0")
    host.link("eth1/carrier", carrier)  # if it had none, it need not have one
    await flipped(host)
    host.link("eth2/carrier", "0")
    with pytest.raises(HostError, match=f"cannot commit the change of {BOND}: eth2 of {BOND} is down"):
        await host.changes().commit(BOND, AFTER)


@pytest.mark.parametrize(
    ("name", "text", "mode", "said"),
    [
        ("arp_validate", "all 3", AFTER, "its arp_validate is all, which the kernel forgets"),
        ("arp_interval", "1000", "802.3ad", r"it looks at its links by ARP \(arp_interval\)"),
        ("arp_interval", "1000", "balance-tlb", r"it looks at its links by ARP \(arp_interval\)"),
        ("arp_interval", "1000", "balance-alb", r"it looks at its links by ARP \(arp_interval\)"),
    ],
)
async def test_a_monitor_that_the_kernel_would_forget(
    host: EdgeHost, name: str, text: str, mode: str, said: str
) -> None:
    host.link(f"{BOND}/bonding/{name}", text)
    with pytest.raises(HostError, match=f"cannot change {BOND} to {mode}: {said}"):
        await host.changes().stage(BOND, mode, BEFORE, "")


async def test_a_monitor_that_the_kernel_keeps(host: EdgeHost) -> None:
    host.link(f"{BOND}/bonding/arp_interval", "1000")
    await flipped(host)
    await host.changes().revert(BOND)
    host.link(f"{BOND}/bonding/arp_validate", "all 3")
    await host.changes().stage(BOND, BEFORE, BEFORE, "eth2")  # its mode stays


def test_addresses_that_files_give() -> None:
    files = {"a.netdev": NETDEV, "b.network": f"[Network]\nAddress={OURS}\nAddress=\nAddress=none\n",
             "c.network": "[Address]\nAddress=FD00:0::1/64\n[Route]\nAddress=1.1.1.1/8\n"}  # fmt: skip
    found = {name: Found(name, text) for name, text in files.items()}
    assert bond_links.declared(found) == {OURS, "fd00::1/64"}
