"""Cables and switches between guests: frames go through here, where a test can lose, delay and cross them.

    with Relay() as relay:
        card = relay.card()                              # QEMU is told card.netdev("data0")
        line = relay.cable(card, other)                  # or relay.cable(card, switch.port())
        line.cut = True                                  # frames vanish; nobody's carrier tells
        line.unplug()                                    # and now these ends may have others

Each lab has an address of its own in 127/8, so that those that run beside one another share no port.
Frames are moved by one thread; the test sets what lines do to them.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

FIRST_PORT = 10000
ROOM = 4 * 1024 * 1024
FRAME = 65536
MAC = 6


class End(Protocol):
    """Where a cable ends."""

    line: Line | None

    def deliver(self, frame: bytes) -> None:
        """Take a frame that came out of the cable."""


class Line:
    """A cable with two ends."""

    def __init__(self, relay: Relay, first: End, second: End) -> None:
        self._relay = relay
        self._ends = (first, second)
        self.cut = False
        self.loss = 0.0
        """Of this share of frames nothing is heard again."""
        self.delay = 0.0
        """Seconds that a frame takes."""
        for one in self._ends:
            if one.line is not None:
                raise ValueError("cannot plug in a cable: there is another one in this end")
            one.line = self

    def carry(self, frm: End, frame: bytes) -> None:
        """Take a frame at one end to the other one."""
        if self.cut or (self.loss and self._relay.random.random() < self.loss):
            return
        target = self._ends[0] if frm is self._ends[1] else self._ends[1]
        if self.delay:
            self._relay.later(self.delay, lambda: target.deliver(frame))
        else:
            target.deliver(frame)

    def unplug(self) -> None:
        """Take it away."""
        self.cut = True
        for one in self._ends:
            one.line = None


class Card:
    """The network card of a guest, seen from outside."""

    def __init__(self, address: str, port: int) -> None:
        self.line: Line | None = None
        self.sent = 0
        """Frames that the guest sent."""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)  # or what the system allows
        self.socket.bind((address, port))
        self.socket.setblocking(False)
        self._guest = (address, port + 1)

    def netdev(self, name: str) -> str:
        """Return what QEMU is told of it."""
        address, port = self.socket.getsockname()
        return f"socket,id={name},udp={address}:{port},localaddr={self._guest[0]}:{self._guest[1]}"

    def deliver(self, frame: bytes) -> None:
        """Give the guest a frame; one that is off, or does not keep up, misses it."""
        with contextlib.suppress(OSError):
            self.socket.sendto(frame, self._guest)

    def drain(self) -> None:
        """Take what the guest sent."""
        with contextlib.suppress(OSError):
            while True:
                frame = self.socket.recv(FRAME)
                self.sent += 1
                if self.line is not None:
                    self.line.carry(self, frame)


class Switch:
    """A switch that learns who is where, and floods what it does not know."""

    def __init__(self) -> None:
        self._ports: list[_Port] = []
        self._seen: dict[bytes, _Port] = {}

    def port(self) -> End:
        """Return one more place for a cable."""
        self._ports.append(_Port(self))
        return self._ports[-1]

    def forward(self, frm: _Port, frame: bytes) -> None:
        """Send a frame to where its receiver was last heard, or everywhere else."""
        target, source = frame[:MAC], frame[MAC : 2 * MAC]
        self._seen[source] = frm
        known = self._seen.get(target)
        if known is not None and known.line is not None and known.line.cut:
            known = None  # a switch forgets who was behind a port that died
        for port in [known] if known is not None else self._ports:
            if port is not frm and port.line is not None:
                port.line.carry(port, frame)


class _Port:
    def __init__(self, switch: Switch) -> None:
        self.line: Line | None = None
        self._switch = switch

    def deliver(self, frame: bytes) -> None:
        self._switch.forward(self, frame)


class Relay:
    """The thread that all frames go through."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self._address = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}.1"
        self._ports = itertools.count(FIRST_PORT, 2)
        self._selector = selectors.DefaultSelector()
        self._cards: list[Card] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._ends = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def __enter__(self) -> Self:
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._wake.send(b"!")
        self._thread.join()
        self._selector.close()
        for one in (self._wake, self._woken, *(card.socket for card in self._cards)):
            one.close()

    def card(self) -> Card:
        """Return a new card; have QEMU use it."""
        card = Card(self._address, next(self._ports))
        self._cards.append(card)
        self._selector.register(card.socket, selectors.EVENT_READ, card)
        self._wake.send(b"!")
        return card

    def cable(self, first: End, second: End) -> Line:
        """Plug in a cable."""
        return Line(self, first, second)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after a while, in the thread that frames go through."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._order), act))

    def _run(self) -> None:
        while not self._ends.is_set():
            wait = self._later[0][0] - time.monotonic() if self._later else None
            for key, _ in self._selector.select(wait if wait is None else max(wait, 0.0)):
                if isinstance(key.data, Card):
                    key.data.drain()
                else:
                    self._woken.recv(4096)
            while self._later and self._later[0][0] <= time.monotonic():
                heapq.heappop(self._later)[2]()
