"""What an agent of an edge site takes, beside one of a plain host: with a bond, a VLAN and DRBD to look at.

`python -m bench edge` measures the same where there are none. Processor time in a guest without KVM is many
times that of a real host, and more where the machine is busy. So a look is compared with the programs that it
runs, as the same guest runs them by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from nodemanager.agent import self_care
from nodemanager.agent.edge import edge_watch
from nodemanager.host.edge.drbd_84 import NAMES
from nodemanager.host.edge.links import SHOW_VLANS
from support.fleet import until
from support.lab import figures
from support.lab.agents import AgentLab, AgentNode
from support.lab.delivery import PLAIN, SECONDS, UNIT_NAME
from support.lab.replica import Pair

WATCHED = 120.0
"""Seconds, by the clock of the guest."""
GROWTH = 4.0
"""MiB: the goal of the benchmark."""
MOST = 3.0
"""Times the processor time of the programs that a look runs: no more of it is for what they say."""
LOOKS = round(WATCHED / edge_watch.PERIOD)
BY_HAND = f"for one in $(seq {LOOKS}); do {' '.join(SHOW_VLANS)}; {' '.join(NAMES)}; done >/dev/null; times"


class Cost(NamedTuple):
    """What an agent takes at rest."""

    mebibytes: float
    share: float
    """Of a core of the guest, in percent."""


@pytest.fixture
def replicated(lab: AgentLab) -> Iterator[AgentLab]:
    """Guests with bonds and a resource in sync over them; no agent runs."""
    lab.rest()
    for node in lab.nodes:
        node.make_bond("balance-rr")
    pair = Pair(lab.site)
    pair.create()
    pair.sync()
    yield lab
    lab.rest()
    for node in lab.nodes:
        declare(node, edge=True)
    pair.down()


def declare(node: AgentNode, *, edge: bool) -> None:
    """Have the agent be one of an edge site from its next start on, or not."""
    if edge:
        node.guest.run("rm", "-f", PLAIN)
    else:
        node.guest.write(PLAIN, "[Service]\nEnvironment=NODEMANAGER_EDGE=false\n")
    node.guest.run("systemctl", "daemon-reload")


def clock(node: AgentNode) -> float:
    """Return the seconds since the guest was started."""
    return float(node.guest.read("/proc/uptime").split()[0])


def worked(node: AgentNode) -> float:
    """Return the seconds that the agent and all its children have computed."""
    said = node.guest.read(f"/sys/fs/cgroup/system.slice/{UNIT_NAME}.service/cpu.stat")
    return int(said.split()[1]) / 1e6


def programs(node: AgentNode) -> float:
    """Return the seconds that the programs of as many looks compute, as a share of their time."""
    said = node.guest.run("sh", "-c", BY_HAND).stdout.splitlines()[-1]  # the second line is about children
    times = re.findall(r"(\d+)m([\d.]+)s", said)
    return 100 * sum(60 * int(minutes) + float(seconds) for minutes, seconds in times) / WATCHED


def resident(node: AgentNode) -> float:
    lines = node.guest.read(f"/proc/{node.process()}/status").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def passes(node: AgentNode, seconds: float) -> None:
    """Wait for so long, by the clock of the guest."""
    end = clock(node) + seconds
    until(lambda: clock(node) >= end, f"{seconds:g} s have passed in {node.name}", SECONDS)


def started(node: AgentNode, *, edge: bool) -> None:
    """Have an agent that has told of its host, and has given back what only its start needed."""
    node.kill()
    declare(node, edge=edge)
    node.guest.run("systemctl", "start", UNIT_NAME)
    until(lambda: told(node, edge=edge), f"the agent of {node.name} has told of its host", SECONDS)
    passes(node, 2 * self_care.SETTLE_SECONDS)


def told(node: AgentNode, *, edge: bool) -> bool:
    if edge:
        return node.tells() and bool(node.edge().get("drbd"))
    status = node.api.get("ManagedNode", node.name).get("status", {})
    return bool(status.get("release")) and not status.get("edge")


def at_rest(node: AgentNode) -> Cost:
    began, before = clock(node), worked(node)
    passes(node, WATCHED)
    return Cost(resident(node), 100 * (worked(node) - before) / (clock(node) - began))


def test_what_looking_at_bonds_and_replicas_takes(replicated: AgentLab) -> None:
    costs: dict[bool, list[Cost]] = {False: [], True: []}
    for first in (False, True):  # each guest in turn: one may have more of a core than the other
        for node, edge in zip(replicated.nodes, (first, not first), strict=True):
            started(node, edge=edge)
        for node, edge in zip(replicated.nodes, (first, not first), strict=True):
            costs[edge].append(at_rest(node))
    plain, full = (
        Cost(*(sum(values) / len(values) for values in zip(*costs[edge], strict=True)))
        for edge in (False, True)
    )
    by_hand = sum(programs(node) for node in replicated.nodes) / len(replicated.nodes)
    figures.note("cost", f"the programs of its looks, by hand: {by_hand:.2f} % of a core of the guest")
    for name, cost in (("without --edge", plain), ("with --edge", full)):
        figures.note("cost", f"{name}: {cost.mebibytes:.1f} MiB, {cost.share:.2f} % of a core of the guest")
    assert full.mebibytes - plain.mebibytes < GROWTH, costs
    assert full.share - plain.share < MOST * by_hand, (costs, by_hand)
