"""drbdPause, drbdResume and drbdVerify on a real DRBD, done by our agent in the guest, as NodeTasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.fleet import until
from support.lab import figures
from support.lab.agents import AgentLab, AgentNode
from support.lab.delivery import SECONDS
from support.lab.flips import Step, succeeds
from support.lab.replica import FAST, NAME, Pair

PAUSE: Step = {"name": "pause", "drbdPause": {"resource": NAME}}
RESUME: Step = {"name": "resume", "drbdResume": {"resource": NAME}}
VERIFY: Step = {"name": "verify", "drbdVerify": {"resource": NAME}, "timeout": "10m"}
FAILS: Step = {"name": "fails", "probe": {"argv": ["false"]}, "timeout": "5s", "onFailure": "undo"}
LOOKED_AT = "300k"
"""A verify at this rate takes long enough for a test to do harm."""


@pytest.fixture
def pair(lab: AgentLab) -> Iterator[Pair]:
    """A resource on both nodes that was never in sync, and agents that run."""
    lab.site.bond("balance-rr", "balance-rr")
    made = Pair(lab.site)
    made.create()
    lab.start()
    yield made
    made.down()


def peer_of(node: AgentNode) -> dict[str, Any]:
    """Return what an agent tells of the one volume of the peer."""
    found = [one for one in node.edge().get("drbd", {}).get("resources", []) if one["name"] == NAME]
    volumes = [there for one in found for peer in one.get("peers", []) for there in peer.get("volumes", [])]
    return volumes[0] if volumes else {}


def tells_who_paused(node: AgentNode, who: str) -> None:
    """Wait until an agent tells who has paused the resync."""
    said = f"the agent of {node.name} tells who has paused the resync: {who}"
    until(lambda: peer_of(node).get("resyncSuspended") == who, said, SECONDS)


def fails(status: dict[str, Any]) -> str:
    """Return why a task failed at its verify."""
    assert status["phase"] == "Failed", status
    return next(str(one.get("message", "")) for one in status["steps"] if one["name"] == "verify")


def test_a_resync_is_paused_by_this_host_and_resumed_by_no_other(lab: AgentLab, pair: Pair) -> None:
    first, second = lab.nodes
    pair.sides[0].drbd("primary", "--force")
    pair.wait("SyncSource", "SyncTarget")
    status = succeeds(first, PAUSE)
    assert status["steps"][0]["evidence"] == {"paused": "1"}
    flags = [one.flags for one in pair.wait("PausedSyncS", "PausedSyncT")]
    assert (flags[0][3], flags[1][2]) == ("u", "p"), "the kernel says who has paused it"
    for node, who in ((first, "user"), (second, "peer")):
        tells_who_paused(node, who)
    assert succeeds(first, PAUSE)["steps"][0]["evidence"] == {"paused": "0"}
    assert succeeds(second, RESUME)["steps"][0]["evidence"] == {"resumed": "0"}, "it is not its flag"
    assert {one.connection for one in pair.rows()} == {"PausedSyncS", "PausedSyncT"}
    assert succeeds(first, RESUME)["steps"][0]["evidence"] == {"resumed": "1"}
    pair.wait("SyncSource", "SyncTarget")
    status = first.does(PAUSE, FAILS)
    assert status["phase"] == "Undone", status
    assert {one.connection for one in pair.wait("SyncSource", "SyncTarget")} == {"SyncSource", "SyncTarget"}
    tells_who_paused(first, "no")


def test_a_verify_tells_of_what_a_disk_changed_without_a_word(lab: AgentLab, pair: Pair) -> None:
    node = lab.nodes[0]
    pair.sync()
    status = succeeds(node, VERIFY)
    assert status["steps"][0]["evidence"] == {"outOfSyncKiB": "0"}
    pair.sides[1].corrupt(start=1000, count=4)
    assert succeeds(node, PAUSE, RESUME), "nobody knows of it yet"
    said = fails(node.does(VERIFY))
    figures.note("drbd_tasks", f"four blocks changed: {said}")
    assert said.startswith(f"16 KiB of {NAME} differ between this host and its peers")
    assert [one.out_of_sync for one in pair.rows()] == [16, 16]
    until(lambda: peer_of(node).get("outOfSync") == 16, "the agent tells how much differs", SECONDS)
    pair.sides[1].guest.run("sh", "-c", f"drbdadm disconnect {NAME}; drbdadm connect {NAME}")
    pair.wait_clean()
    succeeds(node, VERIFY)


def disconnected(pair: Pair) -> None:
    """Have the connection gone for a moment."""
    pair.sides[1].guest.run("sh", "-c", f"drbdadm disconnect {NAME}; drbdadm connect {NAME}")


def cut(pair: Pair) -> None:
    """Have all cables dead until both sides notice."""
    for line in pair.site.lines.values():
        line.cut = True
    pair.wait("WFConnection")
    for line in pair.site.lines.values():
        line.cut = False


@pytest.mark.parametrize("harm", [disconnected, cut], ids=["disconnected for a moment", "cables dead"])
def test_a_verify_that_is_broken_off_fails(lab: AgentLab, pair: Pair, harm: Callable[[Pair], None]) -> None:
    """What it had found is resynced when the connection is back: nothing is left that could be counted."""
    node = lab.nodes[0]
    pair.sync()
    pair.sides[1].corrupt(start=0, count=4)
    pair.rate(LOOKED_AT)
    task = node.give(VERIFY)
    pair.wait("VerifyS", "VerifyT")
    until(lambda: pair.sides[0].row().out_of_sync == 16, "the verify has found what differs", SECONDS)
    harm(pair)
    pair.rate(FAST)
    pair.wait_clean()
    said = fails(node.ended(task))
    figures.note("drbd_tasks", f"broken off, {harm.__name__}: {said}")
    assert "broken off" in said or "its connection to peer is" in said
    pair.sides[1].corrupt(start=0, count=4)
    said = fails(node.does(VERIFY))
    assert said.startswith("16 KiB"), "the next one does not go on where that one was broken off"
