"""DRBD 8.4 between two kernels: what it says at every moment of a resync, a verify and a split brain.

Its words are kept as cases for the parsers of the agent: docs/lab.md says how.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fleet import until
from support.lab.replica import FAST, Pair
from support.lab.site import Site

LOOKED_AT = "500k"
"""A verify at this rate takes long enough to be seen."""


@pytest.fixture
def pair(site: Site) -> Iterator[Pair]:
    """A resource on both nodes that was never in sync, over a bond with two cables."""
    site.bond("balance-rr", "balance-rr")
    made = Pair(site)
    made.create()
    yield made
    made.down()


def test_a_new_replica_is_filled_and_may_be_paused_from_either_side(pair: Pair) -> None:
    first = pair.moments("new")
    assert {one.row.disk for one in first} == {"Inconsistent"}
    assert pair.sides[1].drbd("primary", check=False) == 17, "nobody becomes Primary without good data"
    pair.sides[0].drbd("primary", "--force")
    pair.wait("SyncSource", "SyncTarget")
    source, target = (one.row for one in pair.moments("syncing"))
    assert (source.connection, source.disk, source.peer_disk) == ("SyncSource", "UpToDate", "Inconsistent")
    assert (target.connection, target.disk, target.peer_disk) == ("SyncTarget", "Inconsistent", "UpToDate")
    assert source.out_of_sync > 0
    pause_and_resume(pair, by=0)
    pause_and_resume(pair, by=1)
    pair.rate(FAST)
    pair.wait_clean()
    source, target = (one.row for one in pair.moments("established"))
    assert (source.role, target.role) == ("Primary", "Secondary")


def pause_and_resume(pair: Pair, by: int) -> None:
    pair.sides[by].drbd("pause-sync")
    pair.wait("PausedSyncS", "PausedSyncT")
    flags = [one.row.flags for one in pair.moments(f"paused_by_node{by}")]
    assert (flags[by][3], flags[1 - by][2]) == ("u", "p"), "who has paused says u, the other one p"
    still = [one.out_of_sync for one in pair.rows()]
    assert still == [one.out_of_sync for one in pair.rows()], "nothing moves"
    assert pair.sides[1 - by].drbd("resume-sync", check=False) != 0, "it is not the other one's to resume"
    assert {one.connection for one in pair.rows()} == {"PausedSyncS", "PausedSyncT"}
    pair.sides[by].drbd("resume-sync")
    pair.wait("SyncSource", "SyncTarget")


def test_a_verify_finds_what_a_disk_changed_without_a_word(pair: Pair) -> None:
    pair.sync()
    pair.sides[1].corrupt(start=1000, count=4)
    before = [one.row for one in pair.moments("corrupt_unnoticed")]
    assert {(one.disk, one.out_of_sync) for one in before} == {("UpToDate", 0)}
    pair.rate(LOOKED_AT)
    pair.sides[0].drbd("verify")
    pair.wait("VerifyS", "VerifyT")
    pair.moments("verifying")
    pair.rate(FAST)
    pair.wait("Connected")
    after = [one.row for one in pair.moments("verify_found_differences")]
    assert {(one.disk, one.peer_disk) for one in after} == {("UpToDate", "UpToDate")}
    assert [one.out_of_sync for one in after] == [16, 16], "four blocks of 4 KiB, and UpToDate all the same"
    pair.sides[1].drbd("disconnect")
    until(lambda: pair.sides[0].row().connection == "WFConnection", "the other side waits")
    pair.sides[1].drbd("connect")
    pair.wait_clean()
    pair.rate(LOOKED_AT)
    pair.sides[0].drbd("verify")
    pair.wait("VerifyS", "VerifyT")
    pair.rate(FAST)
    assert [one.out_of_sync for one in pair.wait("Connected")] == [0, 0]


def test_a_split_brain_leaves_both_sides_alone_and_sure_of_themselves(pair: Pair) -> None:
    pair.sync()
    pair.sides[1].drbd("disconnect")
    until(lambda: pair.sides[0].row().connection == "WFConnection", "the first side waits")
    pair.sides[0].fill(0, 256)
    primary, alone = (one.row for one in pair.moments("disconnected"))
    assert primary.out_of_sync == 1024
    assert (alone.connection, alone.disk, alone.out_of_sync) == ("StandAlone", "UpToDate", 0), (
        "it cannot know"
    )
    pair.sides[1].drbd("primary")
    pair.sides[1].fill(512, 128)
    pair.sides[1].drbd("connect")
    pair.wait("StandAlone")
    both = pair.moments("split_brain")
    assert [(one.row.role, one.row.disk) for one in both] == [("Primary", "UpToDate")] * 2
    assert not any("peer" in one.names for one in both), "drbdsetup says nothing of a peer that it has not"
    for side in pair.sides:
        assert "Split-Brain detected" in side.guest.run("dmesg").stdout
    pair.sides[1].drbd("secondary")
    pair.sides[1].drbd("connect", "--discard-my-data")
    pair.sides[0].drbd("connect")
    pair.wait_clean()


def test_with_all_cables_dead_each_side_knows_of_itself_alone(pair: Pair, site: Site) -> None:
    pair.sync()
    for line in site.lines.values():
        line.cut = True
    pair.wait("WFConnection")
    both = [one.row for one in pair.moments("cables_dead")]
    assert {(one.disk, one.peer_disk) for one in both} == {("UpToDate", "DUnknown")}
    for line in site.lines.values():
        line.cut = False
    pair.wait_clean()
