"""A flip of a real bond whose agent is killed, between any two steps and in the middle of one.

Whatever is killed, and whenever: the bond ends with all its cards in one of two modes, the old one or the one
that was committed, and what its files say is the same. Where both ends have the same mode, nothing is
lost between them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fleet import until
from support.lab.agents import CGROUP, AgentLab, AgentNode
from support.lab.delivery import SECONDS
from support.lab.flips import (
    AFTER,
    BEFORE,
    COMMIT,
    FLIP,
    GATE,
    GO_ON,
    LONG,
    REVERT,
    SHORT,
    STAGE,
    Step,
    all_arrives,
    arm,
    probe,
    restart_networkd,
    restored,
    succeeds,
)
from support.lab.site import BOND, NICS, Site, address

WHEN_EMPTY = f"while read -r cards < /sys/class/net/{BOND}/bonding/slaves; do :; done; "
"""Waits, without a process of its own, for the moment in which a bond that is flipped has no cards."""
PROBE = probe(address(1), timeout="20m")
"""Goes on for as long as packets are lost, as they are while the other end has the old mode."""


@pytest.fixture
def node(lab: AgentLab) -> Iterator[AgentNode]:
    """The first guest, whose agent runs; bonds of both are as systemd-networkd made them."""
    for one in lab.nodes:
        one.make_bond(BEFORE)
    node = lab.nodes[0]
    node.guest.run("rm", "-f", GO_ON)
    node.start()
    until(lambda: not node.change(), "the agent has forgotten what was before", SECONDS)
    yield node
    node.guest.set_carrier("outside", up=True)


@pytest.mark.parametrize(
    ("steps", "mode", "told"),
    [
        pytest.param([STAGE], BEFORE, "Staged", id="stage"),
        pytest.param([STAGE, arm(SHORT)], BEFORE, "Fired", id="arm"),
        pytest.param([STAGE, arm(SHORT), FLIP], BEFORE, "Fired", id="flip"),
        pytest.param([STAGE, arm(LONG), FLIP, COMMIT], AFTER, "Committed", id="commit"),
    ],
)
def test_the_agent_is_killed_after(
    node: AgentNode, site: Site, steps: list[Step], mode: str, told: str
) -> None:
    succeeds(node, *steps)
    node.kill()
    assert node.mode() == (AFTER if FLIP in steps else BEFORE)
    node.guest.set_carrier("outside", up=False)
    if told == "Fired":
        until(lambda: restored(node), "the dead-man has put the bond back", SECONDS)
        until(lambda: not node.timers(), "its timer is gone", SECONDS)
    until(lambda: node.is_whole(mode), f"the bond is {mode}", SECONDS)
    assert not node.runs(), "nobody but the dead-man did that, and nobody was there to ask"
    assert (node.declared(), node.timers()) == (mode, [])
    if mode == BEFORE:
        all_arrives(site)
    node.guest.set_carrier("outside", up=True)
    node.start()
    until(lambda: node.change() == told, f"the agent that is back tells {told}", SECONDS)
    assert node.is_whole(mode)


def when_empty(node: AgentNode, act: str) -> None:
    """Have a shell do something in the moment in which the bond has no cards: a program would be too slow."""
    node.guest.run("sh", "-c", WHEN_EMPTY + act, timeout=SECONDS)


def test_the_agent_is_killed_in_the_middle_of_a_flip_which_goes_on(node: AgentNode) -> None:
    agent = node.process()
    task = node.give(STAGE, arm(LONG), FLIP, COMMIT)
    when_empty(node, f"kill -KILL {agent}")
    until(lambda: node.is_whole(AFTER), "the flip is done without the agent", SECONDS)
    assert not node.runs()
    assert node.declared() == BEFORE
    node.start()
    status = node.ended(task)
    assert status["phase"] == "Succeeded", status
    assert node.is_whole(AFTER)
    assert (node.declared(), node.timers()) == (AFTER, [])


def test_a_bond_left_in_pieces_is_put_together_by_the_dead_man(node: AgentNode, site: Site) -> None:
    """All that the agent had started is killed with it, while the bond is down and has no cards."""
    task = node.give(STAGE, arm(SHORT), FLIP, COMMIT)
    when_empty(node, f"echo 1 > {CGROUP}/cgroup.kill")
    until(lambda: not node.runs(), "the agent is gone", SECONDS)
    assert not node.is_whole(AFTER)
    until(lambda: restored(node), "the dead-man has put the bond back", SECONDS)
    until(lambda: node.is_whole(BEFORE), "the bond is back", SECONDS)
    node.start()
    status = node.ended(task)
    assert status["phase"] != "Succeeded", status
    assert node.is_whole(BEFORE)
    assert (node.declared(), node.timers()) == (BEFORE, [])
    all_arrives(site)


def test_networkd_started_in_the_middle_of_a_flip(node: AgentNode, site: Site) -> None:
    """It may take cards back that it sees leave; then the flip fails, and is taken back as a whole."""
    task = node.give(STAGE, arm(LONG), FLIP, COMMIT)
    when_empty(node, "systemctl start systemd-networkd.service")
    mode = AFTER if node.ended(task)["phase"] == "Succeeded" else BEFORE
    until(lambda: node.is_whole(mode), f"the bond is {mode}, as its task says", SECONDS)
    assert (node.declared(), node.timers()) == (mode, [])
    if mode == BEFORE:
        all_arrives(site)


def test_an_agent_that_is_back_in_time_ends_its_task(node: AgentNode) -> None:
    task = node.give(STAGE, arm(LONG), FLIP, GATE, COMMIT)
    until(lambda: node.step(task, "gate") == "Running", "the task is at its gate", SECONDS)
    assert node.mode() == AFTER
    node.kill()
    node.guest.write(GO_ON, "")
    node.start()
    status = node.ended(task)
    assert status["phase"] == "Succeeded", status
    assert node.is_whole(AFTER)
    assert (node.declared(), node.timers()) == (AFTER, [])


@pytest.mark.parametrize("proof", [pytest.param(one, id=one["name"]) for one in (GATE, PROBE)])
def test_an_agent_that_is_back_too_late_takes_its_task_back(node: AgentNode, site: Site, proof: Step) -> None:
    """The dead-man was first; also with systemd-networkd restarted while the bond was flipped.

    A probe that ends with its agent is made again then: that nothing is lost proves the old mode, no new one.
    """
    task = node.give(STAGE, arm(SHORT), FLIP, proof, COMMIT)
    until(lambda: node.step(task, proof["name"]) == "Running", f"the task is at its {proof['name']}", SECONDS)
    restart_networkd(node)
    node.kill()
    until(lambda: restored(node), "the dead-man has put the bond back", SECONDS)
    until(lambda: node.is_whole(BEFORE), "the bond is back", SECONDS)
    node.guest.write(GO_ON, "")
    node.start()
    status = node.ended(task)
    assert status["phase"] != "Succeeded", status
    assert node.is_whole(BEFORE)
    assert (node.declared(), node.timers()) == (BEFORE, [])
    all_arrives(site)


@pytest.mark.parametrize("way", ["revert", "dead-man"])
def test_the_card_that_sends_is_the_same_one_again(
    node: AgentNode, lab: AgentLab, site: Site, way: str
) -> None:
    """It is not the one that the kernel would take by itself; the other end goes on to send by it."""
    for one in lab.nodes:
        one.send_by(NICS[1])
    all_arrives(site)
    succeeds(node, STAGE, arm(LONG if way == "revert" else SHORT), FLIP)
    if way == "revert":
        succeeds(node, REVERT)
    else:
        node.kill()
        until(lambda: restored(node), "the dead-man has put the bond back", SECONDS)
    until(lambda: node.is_whole(BEFORE), "the bond is back", SECONDS)
    assert [one.sends() for one in lab.nodes] == [NICS[1], NICS[1]]
    all_arrives(site)
