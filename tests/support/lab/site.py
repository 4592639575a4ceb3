"""Two nodes with two data cards each, wired in one of the ways that edge sites are wired.

with Site.up() as site:
    site.wire(Topology.CABLES)
    site.bond("balance-rr", "active-backup")       # node 0 has flipped, node 1 has not
    site.loss(0)                                   # share of 60 pings of node 0 that got no answer
"""

from __future__ import annotations

import contextlib
import enum
import re
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.fleet import until
from support.lab import image
from support.lab.guest import Failed, Guest
from support.lab.wires import Card, Line, Relay, Switch

NODES = (0, 1)
NICS = ("data0", "data1")
BOND, VLAN = "bondstor", 100
PINGS = 60
_LOST = re.compile(r"(\d+) packets transmitted, (\d+) received")


class Topology(enum.StrEnum):
    """How the cards are joined."""

    CABLES = "two direct cables"
    APART = "two switches, no link between"
    ONE = "one switch"
    JOINED = "two switches and a link between"


class Site:
    """The nodes, and what is between them."""

    def __init__(self, relay: Relay, cards: list[dict[str, Card]], guests: list[Guest]) -> None:
        self.guests = guests
        self._relay = relay
        self._cards = cards
        self.lines: dict[tuple[int, str], Line] = {}
        """The cable in a card of a node; a direct cable is in two of them."""
        self._trunk: Line | None = None

    @classmethod
    @contextlib.contextmanager
    def up(cls) -> Iterator[Site]:
        """Have two nodes that have just booted; cables are there, and nothing is configured."""
        folder = Path(tempfile.mkdtemp(prefix="nm-lab-"))  # paths of sockets have 107 bytes
        try:
            with Relay() as relay, contextlib.ExitStack() as stack:
                cards = [{nic: relay.card() for nic in NICS} for _ in NODES]
                boots = [Guest.resume(folder / str(node), node, cards[node]) for node in NODES]
                with ThreadPoolExecutor() as pool:
                    guests = list(pool.map(stack.enter_context, boots))
                site = cls(relay, cards, guests)
                site.wire(Topology.CABLES)
                yield site
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def wire(self, topology: Topology) -> None:
        """Take all cables away, and plug in others."""
        for line in {*self.lines.values(), *([self._trunk] if self._trunk else [])}:
            line.unplug()
        self._trunk = None
        if topology is Topology.CABLES:
            self.cross(straight=True)
            return
        switches = [Switch()] if topology is Topology.ONE else [Switch(), Switch()]
        if topology is Topology.JOINED:
            self._trunk = self._relay.cable(switches[0].port(), switches[1].port())
        for node in NODES:
            for number, nic in enumerate(NICS):
                port = switches[number % len(switches)].port()
                self.lines[node, nic] = self._relay.cable(self._cards[node][nic], port)

    def reset(self) -> None:
        """Have it as it was at first: two cables, all of them plugged in, and no bond."""
        self.wire(Topology.CABLES)
        for guest in self.guests:
            for nic in NICS:
                guest.set_carrier(nic, up=True)
            guest.run("find", "/etc/systemd/network", "-type", "f", "-not", "-name", "05-*", "-delete")
            guest.run("networkctl", "reload")
            gone = f"link delete {BOND}.{VLAN}\nlink delete {BOND}\n"
            guest.run("ip", "-force", "-batch", "-", stdin=gone, check=False)

    def cross(self, *, straight: bool = False) -> None:
        """Join the nodes by two cables, each to the other card of the other node; or straight."""
        for line in set(self.lines.values()):
            line.unplug()
        there = NICS if straight else NICS[::-1]
        for here, other in zip(NICS, there, strict=True):
            line = self._relay.cable(self._cards[0][here], self._cards[1][other])
            self.lines[0, here] = self.lines[1, other] = line

    def die(self, node: int, nic: str) -> None:
        """Have a port die: its node sees it, and the other end of the cable does not."""
        self.lines[node, nic].cut = True
        self.guests[node].set_carrier(nic, up=False)
        carrier = f"/sys/class/net/{nic}/bonding_slave/mii_status"
        until(lambda: self.guests[node].says("cat", carrier) == "down", f"{nic} is down")

    def bond(self, *modes: str, active: tuple[str, str] = ("data0", "data0")) -> None:
        """Make a bond with a VLAN on each node, from nothing; in active-backup with this card active."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._bond_one, NODES, modes, active))

    def _bond_one(self, node: int, mode: str, active: str) -> None:
        guest, other = self.guests[node], 1 - node
        guest.run("ip", "-force", "-batch", "-", stdin="\n".join(_bonding(node, mode, active)), check=False)
        shown = guest.says(
            "cat", f"/sys/class/net/{BOND}/bonding/mode", f"/sys/class/net/{BOND}/bonding/slaves"
        )
        if not shown.startswith(mode) or not all(nic in shown for nic in NICS):
            raise Failed(f"cannot make a bond in mode {mode} on {guest.name}: it says {shown!r}")
        # ARP would say how it got on with the losses, and not how the bond does.
        guest.run(
            "ip",
            "neigh",
            "replace",
            address(other),
            "lladdr",
            image.mac(other, NICS[0]),
            "dev",
            f"{BOND}.{VLAN}",
        )

    def loss(self, node: int, pings: int = PINGS, size: int = 56) -> float:
        """Return which share of pings from a node to the other one got no answer."""
        said = self.guests[node].run(
            "ping", "-q", "-n", "-c", str(pings), "-i", "0.05", "-W", "2", "-s", str(size), address(1 - node),
            check=False,
        ).stdout  # fmt: skip
        found = _LOST.search(said)
        if found is None:
            raise Failed(f"cannot ping from {self.guests[node].name}: {said}")
        return 1 - int(found[2]) / int(found[1])


def address(node: int) -> str:
    """Return where a node is to be found on the VLAN of the bond."""
    return f"10.99.0.{node + 1}"


def _bonding(node: int, mode: str, active: str) -> Iterator[str]:
    yield f"link set {BOND} down"
    yield f"link del {BOND}"
    yield f"link add {BOND} type bond mode {mode} miimon 100"
    for nic in NICS:
        yield f"link set {nic} down"
        yield f"link set {nic} master {BOND}"
    yield f"link set {BOND} up"
    if mode == "active-backup":
        yield f"link set {BOND} type bond active_slave {active}"
    yield f"link add link {BOND} name {BOND}.{VLAN} type vlan id {VLAN}"
    yield f"address add {address(node)}/24 dev {BOND}.{VLAN}"
    yield f"link set {BOND}.{VLAN} up"
