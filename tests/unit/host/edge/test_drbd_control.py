"""Resyncs paused and resumed by the flag of this host, and a verify, on DRBD 8.4 and 9 that are tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import pytest

from nodemanager.host.base import HostError, How
from nodemanager.host.edge import drbd_84
from nodemanager.host.edge.drbd_control import DrbdControl, Target
from nodemanager.host.process.runner import CommandFailed, Completed
from support.drbd_kernel import Kernel

VERIFIED = {peer: ["drbdsetup", "verify", "r0", str(peer), "0", "--start=0"] for peer in (1, 2)}


@pytest.fixture(name="kernel", params=["8", "9"])
def _kernel(tmp_path: Path, request: pytest.FixtureRequest) -> Kernel:
    return Kernel(tmp_path, request.param)


async def test_paused_and_resumed_and_nothing_twice(kernel: Kernel) -> None:
    count = len(kernel.flags)
    assert await kernel.control().set_paused("r0", None, paused=True) == count
    assert set(kernel.flags.values()) == {"user"}
    assert await kernel.control().set_paused("r0", None, paused=True) == 0
    assert len(kernel.ran) == count, "a flag that is set is not set again, which drbdsetup would refuse"
    assert await kernel.control().set_paused("r0", None, paused=False) == count
    assert set(kernel.flags.values()) == {"no"}


async def test_the_flag_of_the_peer_is_left_alone(kernel: Kernel) -> None:
    first = next(iter(kernel.flags))
    kernel.flags[first] = "peer"
    kernel.show()
    await kernel.control().set_paused("r0", None, paused=True)
    assert kernel.flags[first] == "user,peer"
    await kernel.control().set_paused("r0", None, paused=False)
    assert kernel.flags[first] == "peer"


async def test_only_what_is_wanted_is_resumed(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "9")
    await kernel.control().set_paused("r0", None, paused=True)
    await kernel.control().set_paused("r0", [Target(1000, 2, 0)], paused=False)
    assert kernel.flags == {1: "user", 2: "no"}


async def test_a_tool_that_says_yes_and_does_nothing_is_not_believed(kernel: Kernel) -> None:
    kernel.deaf = True
    with pytest.raises(HostError, match="cannot pause-sync r0: drbdsetup did, and"):
        await kernel.control().set_paused("r0", None, paused=True)


async def test_an_unknown_resource_and_one_without_peers(kernel: Kernel) -> None:
    with pytest.raises(HostError, match="cannot find resource r9"):
        await kernel.control().set_paused("r9", None, paused=True)
    if kernel.version == "9":
        kernel.flags = {}
        with pytest.raises(HostError, match="cannot go on with r0: it has no peer"):
            await kernel.control().verify("r0")


async def test_a_verify_asks_every_peer_and_counts_what_differs(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "9")
    assert await kernel.control().verify("r0") == 0
    assert kernel.ran == [VERIFIED[1], VERIFIED[2]]
    kernel.finds = 16
    assert await kernel.control().verify("r0") == 32


async def test_a_tie_breaker_without_data_is_not_compared(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "9")
    kernel.disk[2], kernel.clients = "Diskless", {2}
    assert await kernel.control().verify("r0") == 0
    assert kernel.ran == [VERIFIED[1]]
    kernel.disk[1], kernel.clients = "Diskless", {1, 2}
    with pytest.raises(HostError, match="cannot verify r0: there are no two hosts here that have its data"):
        await kernel.control().verify("r0")


async def test_a_copy_whose_disk_is_lost_is_not_left_out(tmp_path: Path) -> None:
    """Nothing would differ from those that are left, and one copy too few be taken for all."""
    kernel = Kernel(tmp_path, "9")
    kernel.disk[2] = "Diskless"
    with pytest.raises(HostError, match=r"cannot verify r0: the disk of volume 0 on n2 is lost \(Diskless\)"):
        await kernel.control().verify("r0")
    kernel.disk[2] = "UpToDate"
    kernel.volumes.append({"volume": 1, "minor": 1001, "disk-state": "Diskless", "client": False})
    with pytest.raises(HostError, match=r"cannot verify r0: the disk of volume 1 is lost \(Diskless\)"):
        await kernel.control().verify("r0")
    del kernel.volumes[1]["client"]
    with pytest.raises(HostError, match="the disk of volume 1 is Diskless, and nothing says why"):
        await kernel.control().verify("r0")
    assert kernel.ran == []


@pytest.mark.parametrize(("disk", "state"), [("Diskless", "Established"), ("UpToDate", "SyncSource")])
async def test_a_verify_that_was_broken_off_found_nothing_out(tmp_path: Path, disk: str, state: str) -> None:
    """The peer lost its disk, or its connection for a moment, while another one was compared."""
    kernel = Kernel(tmp_path, "9")

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        done = await kernel.run(argv, **how)
        if list(argv[3:4]) == ["2"]:
            kernel.disk[1], kernel.state[1] = disk, state
        return done

    with pytest.raises(HostError, match="cannot verify r0: it is not connected and in sync with n1"):
        await DrbdControl(tmp_path, run, kernel.follow, poll=0).verify("r0")


async def test_a_verify_that_is_under_way_is_waited_for_and_not_begun_again(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "8")
    kernel.state[0] = "VerifyS"
    kernel.show()
    looks = []

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        looks.append(argv)
        if len(looks) == 4:
            kernel.oos[0] = 8
            kernel.become(0, "Established")
        return await kernel.run(argv, **how)

    assert await DrbdControl(tmp_path, run, kernel.follow, poll=0).verify("r0") == 8
    assert kernel.ran == []


async def test_a_verify_needs_a_connection_and_fails_with_it(kernel: Kernel) -> None:
    kernel.connection = "Connecting"
    kernel.show()
    with pytest.raises(HostError, match="it is not connected and in sync with"):
        await kernel.control().verify("r0")
    assert kernel.ran == []


async def test_what_drbdsetup_refuses_is_said(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "8")

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        if tuple(argv) == drbd_84.NAMES:
            return await kernel.run(argv, **how)
        return Completed(tuple(argv), 11, b"", b"State change failed: (-15) Need a connection")

    with pytest.raises(CommandFailed, match="Need a connection"):
        await DrbdControl(tmp_path, run, kernel.follow, poll=0).verify("r0")
