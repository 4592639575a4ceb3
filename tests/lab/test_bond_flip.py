"""The mode of a real bond, changed by our agent in the guest, by NodeTasks as the operator gives them."""

from __future__ import annotations

import pytest

from support.fleet import until
from support.lab import figures, networkd
from support.lab.agents import AgentLab, AgentNode
from support.lab.delivery import SECONDS
from support.lab.flips import (
    AFTER,
    BEFORE,
    COMMIT,
    FLIP,
    LONG,
    REVERT,
    STAGE,
    all_arrives,
    arm,
    back,
    probe,
    restart_networkd,
    succeeds,
)
from support.lab.site import BOND, NICS, Site, address


@pytest.fixture
def nodes(lab: AgentLab) -> list[AgentNode]:
    """Both guests with agents that run, and bonds as systemd-networkd made them."""
    for node in lab.nodes:
        node.make_bond(BEFORE)
    lab.start()
    return lab.nodes


def left_alone_by_networkd(node: AgentNode) -> None:
    """Restart systemd-networkd, which leaves the mode as it finds it and gives the VLAN its address again."""
    restart_networkd(node)
    assert node.mode() == AFTER
    until(lambda: node.is_whole(AFTER), "the bond is as it was", SECONDS)


def test_every_step_by_itself_with_networkd_restarted_in_between(nodes: list[AgentNode], site: Site) -> None:
    node = nodes[0]
    succeeds(node, STAGE)
    assert (node.mode(), node.declared(), node.timers()) == (BEFORE, BEFORE, [])
    succeeds(node, arm(LONG))
    assert (node.mode(), node.declared(), len(node.timers())) == (BEFORE, BEFORE, 1)
    until(lambda: node.change() == "Armed", "the agent tells that it is armed", SECONDS)
    restart_networkd(node)
    succeeds(node, FLIP)
    until(lambda: node.is_whole(AFTER), "the bond is flipped", SECONDS)
    assert (node.declared(), len(node.timers())) == (BEFORE, 1), "nothing is kept yet"
    lost = site.loss(0)
    figures.note("bond_flip", f"half-flipped, from node0: {lost:.0%} lost")
    assert 0.2 < lost < 0.9, "the other end is as it was: half of all packets, and what ARP makes of that"
    left_alone_by_networkd(node)
    succeeds(node, COMMIT)
    assert (node.mode(), node.declared(), node.timers()) == (AFTER, AFTER, [])
    until(lambda: node.change() == "Committed", "the agent tells that it is committed", SECONDS)
    left_alone_by_networkd(node)
    succeeds(node, REVERT)
    until(lambda: node.is_whole(BEFORE), "the bond is back", SECONDS)
    assert (node.declared(), node.sends()) == (BEFORE, NICS[0])
    until(lambda: site.loss(0, pings=10) == 0, "both ends hear each other again", SECONDS)


def test_both_ends_flip_prove_their_links_and_stay(nodes: list[AgentNode], site: Site) -> None:
    """Each end waits in its probe for the other one: neither commits before all packets arrive."""
    tasks = [
        node.give(STAGE, arm(LONG), FLIP, probe(address(1 - number), session="both"), COMMIT)
        for number, node in enumerate(nodes)
    ]
    for node, task in zip(nodes, tasks, strict=True):
        status = node.ended(task)
        assert status["phase"] == "Succeeded", status
        proven = next(step["evidence"] for step in status["steps"] if step["name"] == "probe")
        assert {*NICS, "loss"} <= set(proven), proven
        figures.note("bond_flip", f"both flipped, seen from {node.name}: {proven}")
    for number, node in enumerate(nodes):
        left_alone_by_networkd(node)
        assert (node.declared(), node.timers()) == (AFTER, [])
        assert site.loss(number) == 0


def test_a_flip_of_one_end_is_taken_back_as_its_probe_loses_packets(nodes: list[AgentNode]) -> None:
    node = nodes[0]
    status = node.does(STAGE, arm(LONG), FLIP, probe(address(1), timeout="20s"), COMMIT)
    assert status["phase"] != "Succeeded", status
    figures.note("bond_flip", f"half-flipped: {status['message']}")
    until(lambda: node.is_whole(BEFORE), "the bond is back", SECONDS)
    assert (node.declared(), node.timers()) == (BEFORE, [])


def choose_cards(node: AgentNode) -> None:
    """Have a file for each card: only so can one of them be told to be the primary one."""
    node.guest.run("rm", "-f", f"{networkd.FOLDER}/20-slaves.network")
    for nic in NICS:
        text = f"[Match]\nName={nic}\n\n[Network]\nBond={BOND}\n"
        node.guest.write(f"{networkd.FOLDER}/20-{nic}.network", text)
    restart_networkd(node)
    until(lambda: node.is_whole(AFTER), "the bond is as it was", SECONDS)


def test_both_ends_go_back_to_a_mode_in_which_one_card_sends(lab: AgentLab, site: Site) -> None:
    """Each by a task of its own that commits; the primary card is why both send by the same one."""
    for node in lab.nodes:
        node.make_bond(AFTER)
        choose_cards(node)
    lab.start()
    stage = back(STAGE, primary=NICS[1])
    tasks = [
        node.give(
            stage, back(arm(LONG)), back(FLIP), probe(address(1 - number), session="back"), back(COMMIT)
        )
        for number, node in enumerate(lab.nodes)
    ]
    for node, task in zip(lab.nodes, tasks, strict=True):
        status = node.ended(task)
        assert status["phase"] == "Succeeded", status
        assert (node.declared(), node.timers(), node.sends()) == (BEFORE, [], NICS[1])
    all_arrives(site)
    for node in lab.nodes:
        restart_networkd(node)
    until(lambda: all(node.is_whole(BEFORE) for node in lab.nodes), "the bonds are as they were", SECONDS)
    until(lambda: all(node.sends() == NICS[1] for node in lab.nodes), "the primary cards send", SECONDS)
    all_arrives(site)
