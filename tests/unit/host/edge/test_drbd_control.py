"""Resyncs paused and resumed by the flag of this host, and a verify, on DRBD 8.4 and 9 that are tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import pytest

from nodemanager.host.base import HostError, How
from nodemanager.host.edge import drbd_9, drbd_84
from nodemanager.host.edge.drbd_control import DrbdControl, Target
from nodemanager.host.process.runner import CommandFailed, Completed

NAMES = b"r0 role:Primary\n  volume:0 minor:3 disk:UpToDate\n"


class Kernel:
    """One resource with one volume and two peers (one in 8.4), and what drbdsetup does to it."""

    def __init__(self, root: Path, version: str) -> None:
        self.root, self.version = root, version
        (root / "proc").mkdir()
        peers = (0,) if version == "8" else (1, 2)
        self.flags = dict.fromkeys(peers, "no")
        self.state = dict.fromkeys(peers, "Established")
        self.oos = dict.fromkeys(peers, 0)
        self.disk = dict.fromkeys(peers, "UpToDate")
        self.connection = "Connected"
        self.finds = 0
        """KiB that a verify finds to differ."""
        self.deaf = False
        """drbdsetup says yes, and nothing happens."""
        self.ran: list[list[str]] = []
        self.show()

    def show(self) -> None:
        if self.version == "9":
            (self.root / "proc/drbd").write_text("version: 9.1.7 (api:2/proto:110-121)\n")
            return
        known = {"Established": "Connected"}
        cs = known.get(self.state[0], self.state[0]) if self.connection == "Connected" else "WFConnection"
        flag = {"no": "r-----", "user": "r--u--", "peer": "r-p---", "user,peer": "r-pu--"}[self.flags[0]]
        (self.root / "proc/drbd").write_text(
            "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: 0\n"
            f" 3: cs:{cs} ro:Primary/Secondary ds:UpToDate/UpToDate C {flag}\n    ns:0 oos:{self.oos[0]}\n"
        )

    async def run(self, argv: Sequence[str], **how: Unpack[How]) -> Completed:
        assert how["timeout"] > 0
        if tuple(argv) == drbd_84.NAMES:
            return Completed(tuple(argv), 0, NAMES, b"")
        if tuple(argv) == drbd_9.STATUS:
            self._verified()
            return Completed(tuple(argv), 0, json.dumps([self._json()]).encode(), b"")
        self.ran.append(list(argv))
        verb, rest = argv[1], argv[2:]
        peer = 0 if self.version == "8" else int(rest[1])
        assert list(rest) == (["3"] if self.version == "8" else ["r0", str(peer), "0"])
        if not self.deaf:
            self._do(verb, peer)
        self.show()
        return Completed(tuple(argv), 0, b"", b"")

    def _do(self, verb: str, peer: int) -> None:
        flags = {one for one in self.flags[peer].split(",") if one != "no"}
        if verb == "verify":
            self.state[peer] = "VerifyS"
            if self.version == "8":
                self.show()
            return
        flags = flags | {"user"} if verb == "pause-sync" else flags - {"user"}
        self.flags[peer] = ",".join(sorted(flags, reverse=True)) or "no"

    def _verified(self) -> None:
        for peer, state in self.state.items():
            if state == "VerifyS":
                self.state[peer], self.oos[peer] = "Established", self.finds

    def _json(self) -> dict[str, Any]:
        connections = [
            {"peer-node-id": peer, "name": f"n{peer}", "connection-state": self.connection,
             "peer-role": "Secondary",
             "peer_devices": [{"volume": 0, "replication-state": self.state[peer],
                               "peer-disk-state": self.disk[peer], "resync-suspended": self.flags[peer],
                               "out-of-sync": self.oos[peer]}]}
            for peer in self.flags
        ]  # fmt: skip
        devices = [{"volume": 0, "minor": 1000, "disk-state": "UpToDate"}]
        return {"name": "r0", "role": "Primary", "devices": devices, "connections": connections}

    def control(self) -> DrbdControl:
        return DrbdControl(self.root, self.run, poll=0)


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
    assert kernel.ran == [["drbdsetup", "verify", "r0", "1", "0"], ["drbdsetup", "verify", "r0", "2", "0"]]
    kernel.finds = 16
    assert await kernel.control().verify("r0") == 32


async def test_a_tie_breaker_without_data_is_not_compared(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "9")
    kernel.disk[2] = "Diskless"
    assert await kernel.control().verify("r0") == 0
    assert kernel.ran == [["drbdsetup", "verify", "r0", "1", "0"]]
    kernel.disk[1] = "Diskless"
    with pytest.raises(HostError, match="cannot verify r0: there are no two hosts here that have its data"):
        await kernel.control().verify("r0")


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
        await DrbdControl(tmp_path, run, poll=0).verify("r0")


async def test_a_verify_that_is_under_way_is_waited_for_and_not_begun_again(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "8")
    kernel.state[0] = "VerifyS"
    kernel.show()
    looks = []

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        looks.append(argv)
        if len(looks) == 4:
            kernel.state[0], kernel.oos[0] = "Established", 8
            kernel.show()
        return await kernel.run(argv, **how)

    assert await DrbdControl(tmp_path, run, poll=0).verify("r0") == 8
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
        await DrbdControl(tmp_path, run, poll=0).verify("r0")
