"""A verify that was broken off between two looks, though all is well when somebody looks again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

import pytest

from nodemanager.host.base import Follower, HostError, How
from nodemanager.host.edge import drbd_verify
from nodemanager.host.edge.drbd_control import DrbdControl
from nodemanager.host.edge.drbd_verify import Heard
from nodemanager.host.process.runner import CommandNotFound, Completed
from support.drbd_kernel import Kernel

PEER = "name:r0 peer-node-id:1 conn-name:b"


@pytest.mark.parametrize("version", ["8", "9"])
async def test_a_connection_that_is_gone_and_back_between_two_looks(tmp_path: Path, version: str) -> None:
    kernel = Kernel(tmp_path, version)

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        done = await kernel.run(argv, **how)
        if argv[1] == "verify":
            kernel.drop(next(iter(kernel.flags)))
        return done

    with pytest.raises(HostError, match="cannot verify r0: it was broken off, as its connection to n"):
        await DrbdControl(tmp_path, run, kernel.follow, poll=0).verify("r0")


async def test_one_that_was_under_way_and_is_broken_off(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "8")
    kernel.become(0, "VerifyS")
    looks = []

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        looks.append(argv)
        if len(looks) == 4:
            kernel.drop(0)
        return await kernel.run(argv, **how)

    with pytest.raises(HostError, match="it was broken off, as its connection to n0 was NetworkFailure"):
        await DrbdControl(tmp_path, run, kernel.follow, poll=0).verify("r0")


async def test_a_peer_that_is_gone_and_back_while_another_one_is_compared(tmp_path: Path) -> None:
    """What was found to differ has been resynced since, so that nothing is left to be counted."""
    kernel = Kernel(tmp_path, "9")
    kernel.finds = 16

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        done = await kernel.run(argv, **how)
        if list(argv[1:4]) == ["verify", "r0", "2"]:
            kernel.drop(1)
        return done

    with pytest.raises(HostError, match="it was broken off, as its connection to n1 was NetworkFailure"):
        await DrbdControl(tmp_path, run, kernel.follow, poll=0).verify("r0")


async def ends(argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
    del argv
    heard(b"exists -")
    return 20


async def lacks(argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
    del argv, heard
    raise CommandNotFound("cannot run drbdsetup: it is not there")


@pytest.mark.parametrize(
    ("follow", "said"), [(ends, "drbdsetup events2 ended with 20"), (lacks, "cannot run drbdsetup")]
)
async def test_nobody_says_how_it_went_if_nobody_listens(tmp_path: Path, follow: Follower, said: str) -> None:
    kernel = Kernel(tmp_path, "9")
    with pytest.raises(HostError, match=f"cannot verify r0: it was broken off, as {said}"):
        await DrbdControl(tmp_path, kernel.run, follow, poll=0).verify("r0")


async def test_an_end_that_nobody_heard_of_is_none(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "9")

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        if argv[1] == "verify":
            return Completed(tuple(argv), 0, b"", b"")  # drbdsetup says yes, and nothing happens
        return await kernel.run(argv, **how)

    with pytest.raises(HostError, match="it is over, and drbdsetup events2 did not say how it ended"):
        await DrbdControl(tmp_path, run, kernel.follow, poll=0).verify("r0")


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        pytest.param(f"change connection {PEER} connection:Timeout", "its connection to b was Timeout",
                     id="the connection"),
        pytest.param(f"change connection {PEER} connection:Connected role:Primary", "", id="a role"),
        pytest.param(f"change connection {PEER} role:Primary", "", id="a role alone"),
        pytest.param(f"change peer-device {PEER} volume:0 replication:WFBitMapS",
                     "its replication to b was WFBitMapS", id="a resync"),
        pytest.param(f"change peer-device {PEER} volume:0 replication:Established peer-disk:Diskless",
                     "the disk of b was Diskless", id="its disk"),
        pytest.param("change device name:r0 volume:0 minor:0 disk:Failed",
                     "the disk of volume 0 was Failed", id="our disk"),
        pytest.param("destroy peer-device name:r0 peer-node-id:1 conn-name:b volume:0",
                     "its peer-device was removed", id="removed"),
        pytest.param("destroy resource name:r0", "its resource was removed", id="all of it"),
        pytest.param("destroy connection name:r0 peer-node-id:2", "", id="a tie-breaker that is removed"),
        pytest.param("destroy device name:r0 volume:1 minor:1", "", id="a volume that is not compared"),
        pytest.param(f"destroy path {PEER} local:ipv4:10.0.0.1:7000 peer:ipv4:10.0.0.2:7000", "",
                     id="one path of several"),
        pytest.param(f"change peer-device {PEER} volume:0 resync-suspended:user", "", id="a pause"),
        pytest.param(f"exists connection {PEER} connection:Timeout", "", id="as it was"),
        pytest.param("change connection name:r1 peer-node-id:1 connection:Timeout", "", id="another one"),
        pytest.param("change connection name:r0 peer-node-id:2 connection:Timeout", "", id="a tie-breaker"),
        pytest.param("2026-11-18T12:00Z change connection name:r0 peer-node-id:1 connection:Timeout",
                     "its connection to node-1 was Timeout", id="with a time"),
        pytest.param("call helper name:r0 helper:connection", "", id="a helper"),
    ],
)  # fmt: skip
def test_what_breaks_a_verify_off(line: str, broken: str) -> None:
    heard = Heard("r0", frozenset({(1, 0)}))
    heard.hear(line.encode())
    assert heard.broken == broken


def test_a_verify_is_over_only_after_it_began() -> None:
    heard = Heard("r0", frozenset({(1, 0)}))
    for state, over in (
        ("Established", False),
        ("VerifyS", False),
        ("Established", True),
        ("VerifyT", False),
    ):
        heard.hear(f"change peer-device {PEER} volume:0 replication:{state}".encode())
        assert bool(heard.over) == over, state


async def test_a_program_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drbd_verify, "_TIMEOUT", 0.01)
    with pytest.raises(HostError, match="drbdsetup events2 does not say how it is"):
        await Heard("r0", frozenset()).listens()
