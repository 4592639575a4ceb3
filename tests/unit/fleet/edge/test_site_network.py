"""What is said of the network between hosts, word by word, the worst first."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.api.common.edge_state import (
    BondChange,
    BondSlave,
    BondState,
    EdgeState,
    LinkState,
    VlanState,
)
from nodemanager.api.edge.edgecluster import HEALTHY, UNHEALTHY, UNKNOWN
from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.api.edge.profile_parts import BondModes, SiteNetwork, Topology, Vlan
from nodemanager.fleet.edge.hosts import site_network

ONE, ALL = "active-backup", "balance-rr"


def spec(links: str = "direct", **network: Any) -> EdgeProfileSpec:
    given = {"bond": "bond0", "modes": BondModes(single=ONE, multi=ALL), **network}
    return EdgeProfileSpec(topology=Topology(links=links), network=SiteNetwork(**given))


def bond(mode: str = ALL, cards: tuple[str, ...] = ("data0", "data1"), **fields: Any) -> BondState:
    slaves = [BondSlave(name=one.strip("!"), mii="down" if "!" in one else "up") for one in cards]
    given = {"name": "bond0", "mode": mode, "state": "up", "monitor": 100, "slaves": slaves, **fields}
    return BondState(**given)


def state(*bonds: BondState, **fields: Any) -> EdgeState:
    return EdgeState(bonds=list(bonds), **fields)


def vlans(number: int = 7, up: str = "up", mtu: int = 0) -> dict[str, Any]:
    return {"vlans": [VlanState(name="v7", id=number, state=up)], "links": [LinkState(name="v7", mtu=mtu)]}


def change(phase: str, name: str = "bond0", mode: str = ALL) -> BondChange:
    return BondChange(bond=name, phase=phase, mode=mode)


V7 = spec(vlans=[Vlan(name="v7", id=7)])
CASES = [
    pytest.param([state(bond()), state(bond())], spec(), "bond0 is balance-rr on 2 nodes", HEALTHY,
                 id="well"),
    pytest.param([state(bond())], spec(), "bond0 is balance-rr on 1 node", HEALTHY, id="one node"),
    pytest.param([state(error="no netlink"), state()], spec(), "b has no bond bond0; a: no netlink",
                 UNHEALTHY, id="of one that could not be looked at nothing is missed"),
    pytest.param([state(error="no netlink")], spec(), "a: no netlink", UNKNOWN, id="nothing was looked at"),
    pytest.param([state(bond(state="down", cards=()))], spec(), "a: bond0 is down", UNHEALTHY, id="down"),
    pytest.param([state(bond(cards=(), monitor=0))], spec(),
                 "a: bond0 has no cards; a: nobody monitors the links of bond0", UNHEALTHY, id="no cards"),
    pytest.param([state(bond(cards=("x", "!y", "!z")))], spec(), "a: y, z of bond0 is down", UNHEALTHY,
                 id="cards that are down"),
    pytest.param([state(bond(cards=("x", "!y"), monitor=0))], spec(),
                 "a: nobody monitors the links of bond0", UNKNOWN, id="nobody looks whether cards are down"),
    # Modes.
    pytest.param([state(bond("802.3ad"))], spec(), "bond0 is 802.3ad, which is no mode of the profile",
                 UNHEALTHY, id="another mode"),
    pytest.param([state(bond(""))], spec(), "bond0 is of no known mode, which is no mode of the profile",
                 UNHEALTHY, id="no mode"),
    pytest.param([state(bond("802.3ad"))], spec(modes=None), "bond0 is 802.3ad on 1 node", HEALTHY,
                 id="a profile without modes has none that is wrong"),
    pytest.param([state(bond()), state(bond("")), state(bond())], spec(modes=None),
                 "bond0 is half-flipped: balance-rr on a and c, of no known mode on b;"
                 " every second packet is lost", UNHEALTHY,
                 id="modes that differ, without any in the profile"),
    pytest.param([state(bond()), state(bond(ONE))], spec("isolated-switches"),
                 "bond0 is half-flipped: balance-rr on a, active-backup on b; every second packet is lost",
                 UNHEALTHY, id="modes that differ where nothing joins the switches"),
    pytest.param([state(bond()), state(bond(ONE))], spec("joined-switches"),
                 "bond0 is half-flipped: balance-rr on a, active-backup on b", UNHEALTHY,
                 id="modes that differ where switches join them"),
    # The ends of cables.
    pytest.param([state(bond(ONE, active="data1"))], spec(), "bond0 is active-backup on 1 node", HEALTHY,
                 id="alone it sends by any card"),
    pytest.param([state(bond(ONE)), state(bond(ONE, active="data0"))], spec(),
                 "a: nothing is said of the card by which bond0 sends", UNKNOWN,
                 id="a card that nobody told"),
    pytest.param([state(bond(ONE, active="data0")), state(bond(ONE, active="data1"))], spec(),
                 "bond0 sends by different cards: data0 on a, data1 on b; nothing gets through", UNHEALTHY,
                 id="two cables"),
    pytest.param([state(bond(ONE, active="data0")), state(bond(ONE, ("x", "y"), active="x"))], spec(),
                 "bond0 sends by data0 on a, x on b; nobody knows whether these are the ends of one cable",
                 UNKNOWN, id="cards of other names"),
    pytest.param([state(bond(ONE, ("!data0",), active="")), state(bond(ONE, active="data1"))], spec(),
                 "a: data0 of bond0 is down; a: nothing is said of the card by which bond0 sends", UNHEALTHY,
                 id="what is wrong comes before what is not known"),
    # MTUs and VLANs.
    pytest.param([state(bond(mtu=9000)), state(bond(mtu=1500)), state(bond(mtu=9000)), state(bond())], spec(),
                 "bond0 differs in MTU: 9000 on a and c, 1500 on b; larger packets are lost", UNHEALTHY,
                 id="one drops what others send"),
    pytest.param([state(bond(), links=[LinkState(name="bond0", mtu=9000)]), state(bond(mtu=1500))], spec(),
                 "bond0 differs in MTU: 9000 on a, 1500 on b; larger packets are lost", UNHEALTHY,
                 id="the MTU of a bond is told as that of a link"),
    pytest.param([state(bond(), links=[LinkState(name="eth0", mtu=9000)]),
                  state(bond(), links=[LinkState(name="eth0", mtu=1500)])], spec(),
                 "bond0 is balance-rr on 2 nodes", HEALTHY, id="other cards may have another MTU"),
    pytest.param([state(bond(), **vlans(mtu=9000)), state(bond(), **vlans(mtu=1500))], V7,
                 "v7 differs in MTU: 9000 on a, 1500 on b; larger packets are lost", UNHEALTHY,
                 id="VLANs differ"),
    pytest.param([state(bond(mtu=9000)), state(bond(name="bond1", mtu=1500))], spec(), "b has no bond bond0",
                 UNHEALTHY, id="the MTU of another bond is not compared"),
    pytest.param([state(bond())], V7, "a: it has no VLAN v7", UNHEALTHY, id="no VLAN"),
    pytest.param([state(bond(), **vlans(8))], V7, "a: v7 has the number 8, and not 7", UNHEALTHY,
                 id="another number"),
    pytest.param([state(bond(), **vlans(0))], V7, "bond0 is balance-rr on 1 node", HEALTHY,
                 id="a number that is not known"),
    pytest.param([state(bond(), **vlans(up="down"))], V7, "a: v7 is down", UNHEALTHY, id="a VLAN is down"),
    # What could not be put back.
    pytest.param([state(bond(), bond_changes=[change("Armed"), change("RestoreFailed")])], spec(),
                 "a: bond0 could not be put back; a bondRevert tries again", UNHEALTHY, id="not put back"),
    pytest.param([state(bond(), bond_changes=[change("RestoreFailed", "bond1")])], spec(),
                 "bond0 is balance-rr on 1 node", HEALTHY, id="another bond could not be put back"),
    pytest.param([state(bond_changes=[change("RestoreFailed")]), state(bond("802.3ad", cards=()))], spec(),
                 "bond0 is 802.3ad, which is no mode of the profile; a: bond0 could not be put back;"
                 " a bondRevert tries again; a has no bond bond0; b: bond0 has no cards", UNHEALTHY,
                 id="the worst first"),
]  # fmt: skip


@pytest.mark.parametrize(("states", "wanted", "text", "word"), CASES)
def test_what_is_said_of_a_network(
    states: list[EdgeState], wanted: EdgeProfileSpec, text: str, word: str
) -> None:
    verdict = site_network.judge(dict(zip("abcd", states, strict=False)), wanted)
    assert (verdict.text, verdict.state) == (text, word)


def test_who_changes_its_bond_is_told_with_the_mode_that_was_wanted() -> None:
    told = {
        "a": state(bond_changes=[change("Armed"), change("Armed", "bond1"), change("Staged", mode=ONE)]),
        "b": state(bond_changes=[change("Restoring", mode=ONE)]),
    }
    assert site_network.under_way(told, "bond0", site_network.ARMED) == ["a (balance-rr)"]
    assert site_network.under_way(told, "bond0", site_network.RESTORING) == ["b (active-backup)"]
