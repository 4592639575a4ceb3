"""What is said of DRBD, word by word: each fault once, and nothing of what a lost peer can no longer know."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.common.edge_state import (
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdState,
    DrbdVolume,
)
from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED, UNHEALTHY, UNKNOWN
from nodemanager.fleet.edge.hosts import replication

GOOD = DrbdPeerVolume(replication="Established", disk="UpToDate", out_of_sync=0, resync_suspended="no")
DISK = DrbdVolume(disk="UpToDate")


def there(**fields: Any) -> DrbdPeerVolume:
    return msgspec.structs.replace(GOOD, **fields)


def peer(*volumes: DrbdPeerVolume, connection: str = "Connected", name: str = "b") -> DrbdPeer:
    return DrbdPeer(name=name, connection=connection, volumes=list(volumes))


def resource(*peers: DrbdPeer, volumes: tuple[DrbdVolume, ...] = (DISK,), **fields: Any) -> DrbdResource:
    given = {"name": "r0", "suspended": "no", "volumes": list(volumes), "peers": list(peers), **fields}
    return DrbdResource(**given)


def state(*resources: DrbdResource, **fields: Any) -> DrbdState:
    return DrbdState(resources=list(resources), **fields)


@pytest.mark.parametrize(
    ("seen", "faults", "unknown"),
    [
        pytest.param(resource(peer(there())), [], [], id="well"),
        pytest.param(resource(), [], [], id="nobody to talk to"),
        pytest.param(resource(suspended="quorum,user"), ["its IO is suspended (quorum,user)"], [],
                     id="suspended"),
        pytest.param(resource(suspended=""), [], ["nothing is said of whether its IO is suspended"],
                     id="not told whether it is suspended"),
        pytest.param(resource(volumes=()), [], ["nothing is said of its disk"], id="no volume"),
        pytest.param(resource(volumes=(DISK, DrbdVolume())), [], ["nothing is said of its disk"],
                     id="not told of one disk of two"),
        pytest.param(resource(volumes=(DISK, DrbdVolume(disk="Failed"))), ["its disk is Failed"], [],
                     id="one disk of two has failed"),
        pytest.param(resource(volumes=(DISK, DrbdVolume(disk="UpToDate", quorum=False))),
                     ["it has no quorum: writes fail or hang"], [], id="no quorum for one of two volumes"),
        pytest.param(resource(volumes=(DrbdVolume(disk="Diskless", client=True),)), [], [], id="a client"),
        pytest.param(resource(volumes=(DISK, DrbdVolume(disk="Diskless"))), [],
                     ["nothing is said of why it has no disk"], id="not told whether it is a client"),
        pytest.param(resource(volumes=(DrbdVolume(disk="Diskless", client=False),)),
                     ["its disk is lost (Diskless)"], [], id="a disk is lost"),
        pytest.param(
            resource(peer(DrbdPeerVolume(), DrbdPeerVolume(disk="Diskless"), connection="Connecting")),
            ["it is not connected to b (Connecting)"], [],
            id="of a peer that is away nothing has to be known, and nothing counts",
        ),
        pytest.param(resource(peer(there(disk="Failed", resync_suspended="user"), connection="")),
                     ["it is not connected to b (nothing is said of it)"], [], id="nothing said of a peer"),
        pytest.param(resource(peer(there(), there(out_of_sync=4, replication="VerifyS"))),
                     ["4 KiB differ from b"], [], id="one volume of two differs"),
        pytest.param(resource(peer(there(replication="Ahead", out_of_sync=4))), ["it is at Ahead with b"], [],
                     id="neither at rest nor synced"),
        pytest.param(resource(peer(there(disk="Outdated", out_of_sync=4))), ["the disk of b is Outdated"], [],
                     id="a peer is outdated"),
        pytest.param(resource(peer(there(disk="Outdated", resync_suspended="peer"))),
                     ["the disk of b is Outdated", "its next sync with b is paused by peer"], [],
                     id="a peer is outdated, and will stay so"),
        pytest.param(resource(peer(there(replication="SyncSource", disk="Inconsistent", out_of_sync=9))),
                     ["it is synced with b"], [], id="synced, nobody knows how far"),
        pytest.param(resource(peer(there(replication="SyncTarget", out_of_sync=9, done=0))),
                     ["it is synced, 0 % done, with b"], [], id="synced, at its beginning"),
        pytest.param(resource(peer(there(replication="SyncTarget", done=7, resync_suspended="peer"))),
                     ["its sync is paused by peer with b"], [],
                     id="paused, told by who paused it alone, and said once"),
        pytest.param(resource(peer(there(replication="PausedSyncT", done=7))),
                     ["its sync is paused with b"], [], id="paused, nobody says by whom"),
        pytest.param(resource(peer()), [], ["nothing is said of what differs from b"], id="no volume there"),
        pytest.param(resource(peer(there(), there(replication=""))), [],
                     ["nothing is said of what differs from b"], id="not told at what one of two is"),
        pytest.param(resource(peer(there(), there(out_of_sync=None))), [],
                     ["nothing is said of what differs from b"], id="not told what differs of one of two"),
        pytest.param(resource(peer(there(), there(disk=""))), [],
                     ["nothing is said of the disk of b"], id="not told of one disk of two there"),
        pytest.param(resource(peer(there(), there(disk="Diskless"))), [],
                     ["nothing is said of why b has no disk"], id="not told whether the peer is a client"),
        pytest.param(resource(peer(there(), there(resync_suspended=""))), [],
                     ["nothing is said of whether its next sync with b is paused"],
                     id="not told whether one of two is paused"),
        pytest.param(
            resource(peer(there(out_of_sync=4)), peer(there(), connection="StandAlone", name="c")),
            ["4 KiB differ from b", "it is not connected to c (StandAlone)"], [], id="each peer for itself",
        ),
    ],
)  # fmt: skip
def test_what_a_host_sees_of_a_resource(seen: DrbdResource, faults: list[str], unknown: list[str]) -> None:
    verdict = replication.judge({"a": state(seen)}, copies=1, complete=False)
    assert list(verdict.faults) == [f"r0 on a: {text}" for text in faults]
    assert list(verdict.unknown) == [f"r0 on a: {text}" for text in unknown]
    assert verdict.state == (UNHEALTHY if faults else UNKNOWN if unknown else HEALTHY)
    assert replication.is_well(seen) is (verdict.state == HEALTHY)


CLIENT = DrbdVolume(disk="Diskless", client=True)
WELL = resource(peer(there()))


@pytest.mark.parametrize(
    ("told", "copies", "complete", "faults"),
    [
        pytest.param({"a": state(WELL), "b": state(WELL)}, 2, True, [], id="all are there"),
        pytest.param({"a": state(WELL), "b": state()}, 2, True, ["r0 has 1 of 2 copies"],
                     id="one is missing"),
        pytest.param({"a": state(WELL), "b": None}, 2, True, ["r0 has 1 of 2 copies"], id="no DRBD there"),
        pytest.param({"a": state(WELL), "b": state()}, 2, False, [], id="others may have it"),
        pytest.param({"a": state(WELL), "b": state(omitted=1)}, 2, True, [], id="it may be left out there"),
        pytest.param({"a": state(WELL), "b": state(error="no")}, 2, True, [], id="one could not be read"),
        pytest.param({"a": state(resource())}, 1, True, [], id="one of one has no peer"),
        pytest.param({"a": state(resource())}, 2, False, ["r0 on a: it has no connection"],
                     id="one of two has no peer"),
        pytest.param({"a": state(resource(volumes=(DISK, CLIENT)))}, 1, True, [],
                     id="one disk of two is enough to be a copy"),
        pytest.param({"a": state(resource(volumes=(CLIENT,)))}, 1, True, ["r0 has 0 of 1 copies"],
                     id="a client is none"),
        pytest.param(
            {"a": state(resource(name="z"), resource(name="y"))}, 2, True,
            ["z on a: it has no connection", "y on a: it has no connection", "y has 1 of 2 copies",
             "z has 1 of 2 copies"],
            id="by name",
        ),
    ],
)  # fmt: skip
def test_copies_are_counted_where_all_are_seen(
    told: dict[str, DrbdState | None], copies: int, complete: bool, faults: list[str]
) -> None:
    assert list(replication.judge(told, copies, complete=complete).faults) == faults


def test_what_is_told_of_all_together() -> None:
    both = replication.judge({"a": state(WELL), "b": state(WELL)}, copies=2)
    assert (both.state, both.text) == (HEALTHY, "1 resource, 2 copies, nothing differs")
    lacking = replication.judge({"a": state(WELL), "b": state()}, copies=2)
    assert (lacking.state, lacking.text) == (UNHEALTHY, "r0 has 1 of 2 copies")
    nothing = replication.judge({"a": None, "b": None}, copies=2)
    assert (nothing.state, nothing.text) == (NOT_OBSERVED, "DRBD is loaded nowhere")
    unread = replication.judge({"a": state(error="no drbdsetup"), "b": None}, copies=2)
    assert (unread.state, unread.text) == (UNKNOWN, "a: no drbdsetup")


def test_how_far_syncs_are_is_told_of_syncs_only() -> None:
    idle = resource(peer(there(replication="VerifyS", done=20)))
    busy = resource(
        peer(there(replication="SyncSource", done=48), there(replication="SyncSource"), there(done=3)),
        peer(there(replication="PausedSyncT", done=0)),
    )
    assert (replication.syncing(idle), replication.progress(idle)) == (False, [])
    assert (replication.syncing(busy), replication.progress(busy)) == (True, [48, 0])
