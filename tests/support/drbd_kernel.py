"""DRBD 8.4 or 9 as a table: one resource, what drbdsetup does to it, and what it tells of that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

from nodemanager.host.base import How
from nodemanager.host.edge import drbd_9, drbd_84
from nodemanager.host.edge.drbd_control import DrbdControl
from nodemanager.host.edge.drbd_events import EVENTS
from nodemanager.host.process.runner import Completed

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
        self.clients: set[int] = set()
        """Peers that shall have no disk."""
        self.volumes: list[dict[str, Any]] = [
            {"volume": 0, "minor": 1000, "disk-state": "UpToDate", "client": False}
        ]
        self.connection = "Connected"
        self.finds = 0
        """KiB that a verify finds to differ."""
        self.deaf = False
        """drbdsetup says yes, and nothing happens."""
        self.ran: list[list[str]] = []
        self.listeners: list[Callable[[bytes], None]] = []
        self.show()

    async def follow(self, argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
        """Tell as drbdsetup events2 does: how it is, and then what becomes of it."""
        assert tuple(argv) == EVENTS
        for peer, state in self.state.items():
            heard(f"exists peer-device {self._key(peer)} replication:{state}".encode())
        heard(b"exists -")
        self.listeners.append(heard)
        try:
            return await asyncio.Future()
        finally:
            self.listeners.remove(heard)

    def _key(self, peer: int) -> str:
        return f"name:r0 peer-node-id:{peer} conn-name:n{peer} volume:0"

    def tell(self, line: str) -> None:
        for heard in list(self.listeners):
            heard(line.encode())

    def become(self, peer: int, state: str) -> None:
        self.state[peer] = state
        self.show()
        self.tell(f"change peer-device {self._key(peer)} replication:{state}")

    def drop(self, peer: int) -> None:
        """Break the connection, and have it back at once: everything that differed is resynced."""
        self.tell(
            f"change connection name:r0 peer-node-id:{peer} conn-name:n{peer} connection:NetworkFailure"
        )
        self.tell(f"change peer-device {self._key(peer)} replication:Off peer-disk:DUnknown")
        self.tell(f"change connection name:r0 peer-node-id:{peer} conn-name:n{peer} connection:Connected")
        self.oos[peer] = 0
        self.become(peer, "Established")

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
        whole = ["--start=0"] if verb == "verify" else []
        assert list(rest) == [*(["3"] if self.version == "8" else ["r0", str(peer), "0"]), *whole]
        if not self.deaf:
            self._do(verb, peer)
        self.show()
        return Completed(tuple(argv), 0, b"", b"")

    def _do(self, verb: str, peer: int) -> None:
        flags = {one for one in self.flags[peer].split(",") if one != "no"}
        if verb == "verify":
            self.become(peer, "VerifyS")
            return
        flags = flags | {"user"} if verb == "pause-sync" else flags - {"user"}
        self.flags[peer] = ",".join(sorted(flags, reverse=True)) or "no"

    def _verified(self) -> None:
        for peer, state in list(self.state.items()):
            if state == "VerifyS":
                self.oos[peer] = self.finds
                self.become(peer, "Established")

    def _json(self) -> dict[str, Any]:
        connections = [
            {"peer-node-id": peer, "name": f"n{peer}", "connection-state": self.connection,
             "peer-role": "Secondary",
             "peer_devices": [{"volume": one["volume"], "replication-state": self.state[peer],
                               "peer-disk-state": self.disk[peer], "peer-client": peer in self.clients,
                               "resync-suspended": self.flags[peer], "out-of-sync": self.oos[peer]}
                              for one in self.volumes]}
            for peer in self.flags
        ]  # fmt: skip
        return {"name": "r0", "role": "Primary", "devices": self.volumes, "connections": connections}

    def control(self) -> DrbdControl:
        return DrbdControl(self.root, self.run, self.follow, poll=0)
