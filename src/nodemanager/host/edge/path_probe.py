"""Proves each card of a bond by itself: raw frames to the cards of a peer that does the same, and back.

A frame says how many its sender has heard of one run of its peer on that card, so each side learns about both
directions, and nothing that was heard before a run began proves it. Sockets that are bound to a card also get
what the bond above it drops, so backup cards are proven, too. It proves only cables and switches, not
the bond, and not the sender: every machine on the same cable can send such frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.edge import links

ETHER_TYPE: Final = 0x88B5
"""The EtherType that IEEE 802 reserves for experiments within a site."""
INTERVAL: Final = 0.1
LINGER: Final = 2.0
"""Seconds for which frames are still sent after all is proven, so that the peer gets its proof, too."""
_MAGIC: Final = b"nmp1"
_BODY: Final = struct.Struct("!4s8s8s8s8s16sII")
_RUN: Final = 8
_MAX_PEERS: Final = 16
_HEADER: Final = 14
_LEAST: Final = 60
_BROADCAST: Final = b"\xff" * 6
_LOCAL: Final = 0x02
_GROUP: Final = 0x01
OpenSocket = Callable[[str], socket.socket]


class Frame(NamedTuple):
    """The content of a frame."""

    session: bytes
    host: bytes
    run: bytes
    """An id of a card's run at the sender: a new one each time it begins."""
    echo: bytes
    """The run of a peer's card that `heard` is about: through a switch, one card hears several."""
    card: str
    number: int
    heard: int


@dataclass(slots=True)
class PeerProof:
    """The facts about one card, and one run of a peer's card."""

    heard: int = 0
    heard_there: int = 0
    card: str = ""

    @property
    def both(self) -> int:
        """How many frames arrived in each direction at least."""
        return min(self.heard, self.heard_there)


@dataclass(slots=True)
class CardProof:
    """The facts about one card."""

    sent: int = 0
    peers: dict[bytes, PeerProof] = field(default_factory=dict)
    """By run."""

    @property
    def best(self) -> PeerProof:
        """What is known of the peer that is proven best: half of one and half of another prove nothing."""
        return max(self.peers.values(), key=lambda one: (one.both, one.heard), default=PeerProof())

    @property
    def heard(self) -> int:
        """Frames of that peer that arrived here."""
        return self.best.heard

    @property
    def heard_there(self) -> int:
        """Frames of ours that arrived there, as that peer says."""
        return self.best.heard_there

    @property
    def cards(self) -> set[str]:
        """Cards of peers that were heard."""
        return {one.card for one in self.peers.values()}

    def proven(self, frames: int) -> bool:
        """Tell whether enough arrived in both directions."""
        return self.best.both >= frames

    def answer(self) -> tuple[bytes, int]:
        """Return the run of a peer and how much of it was heard; of several, another one each time."""
        if not self.peers:
            return bytes(_RUN), 0
        run = list(self.peers)[self.sent % len(self.peers)]
        return run, self.peers[run].heard

    def words(self) -> str:
        """Return it for people."""
        peers = ", ".join(sorted(self.cards)) or "nobody"
        return f"{self.sent} sent, {self.heard_there} heard there, {self.heard} heard here, of {peers}"


def digest(text: str) -> bytes:
    """Return what a name is in a frame."""
    return hashlib.sha256(text.encode()).digest()[:8]


def sender(address: bytes) -> bytes:
    """Return the address that frames of a card come from; pure.

    A bond has the address of one of its cards. Were that in a frame of another one, switches would send to
    that card what is for the bond. Cards of virtual machines have local addresses already, so that it is not
    enough to make it one.
    """
    made = hashlib.sha256(b"path probe" + address).digest()[: len(address)]
    return bytes([(made[0] | _LOCAL) & ~_GROUP]) + made[1:]


def encode(address: bytes, frame: Frame) -> bytes:
    """Return a frame as it is sent, to everybody; pure."""
    name = frame.card.encode()[:16]
    who = frame.session, frame.host, frame.run, frame.echo
    body = _BODY.pack(_MAGIC, *who, name, frame.number, frame.heard)
    return (_BROADCAST + sender(address) + struct.pack("!H", ETHER_TYPE) + body).ljust(_LEAST, b"\0")


def decode(data: bytes) -> Frame | None:
    """Return what a frame says; None = it is none of ours; pure."""
    if len(data) < _HEADER + _BODY.size or data[12:14] != struct.pack("!H", ETHER_TYPE):
        return None
    magic, session, host, run, echo, name, number, heard = _BODY.unpack_from(data, _HEADER)
    if magic != _MAGIC:
        return None
    card = name.rstrip(b"\0").decode("ascii", "replace")
    return Frame(session, host, run, echo, card, number, heard) if card.isprintable() else None


def take(proof: CardProof, frame: Frame | None, own: Frame) -> None:
    """Count a frame of a peer; ours, which a switch gave back, and those of others do not count; pure.

    `own` is one of ours. What a peer heard of an earlier run of ours does not count, either.
    """
    if frame is None or frame.session != own.session or frame.host == own.host:
        return
    if frame.run not in proof.peers and len(proof.peers) == _MAX_PEERS:
        return
    peer = proof.peers.setdefault(frame.run, PeerProof())
    peer.heard += 1
    peer.card = frame.card
    if frame.echo == own.run and frame.heard <= proof.sent:
        peer.heard_there = max(peer.heard_there, frame.heard)


def packet_socket(card: str) -> socket.socket:
    """Return a socket for frames of one card; only root may."""
    if not hasattr(socket, "AF_PACKET"):
        raise NotSupported("cannot probe a card: this system has no packet sockets")
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHER_TYPE))
    try:
        made.bind((card, ETHER_TYPE))
    except OSError as error:
        made.close()
        raise HostError(f"cannot probe {card}: {error.strerror or error}") from error
    return made


@dataclass(frozen=True, slots=True)
class FrameProbe:
    """One probe of all cards of a bond."""

    root: str | Path
    session: str
    host: str
    frames: int
    open_socket: OpenSocket = packet_socket
    interval: float = INTERVAL
    linger: float = LINGER
    own: bytes = field(default_factory=lambda: os.urandom(_RUN))
    """The base of the ids of card runs."""

    async def run(self, bond: str, seconds: float, least: int = 0) -> Mapping[str, CardProof]:
        """Send and listen until every card is proven, or the time is up; return what is known of each.

        A bond with fewer cards than `least` may get them back until then: those that are left prove no other.
        """
        until = asyncio.get_running_loop().time() + seconds
        cards = await self._cards(bond, max(least, 1), until)
        proofs = {card: CardProof() for card in cards}
        with self._sockets(proofs) as sockets, contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while not all(one.proven(self.frames) for one in proofs.values()):
                    self._send(sockets, proofs)
                    await asyncio.sleep(self.interval)
                for _ in range(round(self.linger / self.interval)):
                    self._send(sockets, proofs)
                    await asyncio.sleep(self.interval)
        return proofs

    async def _cards(self, bond: str, least: int, until: float) -> list[str]:
        """Return the cards of a bond once there are enough of them."""
        loop = asyncio.get_running_loop()
        while len(cards := [one.name for one in links.read_bond(self.root, bond).slaves]) < least:
            if least == 1 or loop.time() >= until:
                found = ", ".join(cards) or "none"
                raise HostError(f"cannot probe the cards of {bond}: it has {found}, and shall have {least}")
            await asyncio.sleep(self.interval)
        return cards

    @contextlib.contextmanager
    def _sockets(self, proofs: Mapping[str, CardProof]) -> Iterator[dict[str, socket.socket]]:
        loop, made = asyncio.get_running_loop(), {}
        try:
            for card, proof in proofs.items():
                made[card] = self.open_socket(card)
                made[card].setblocking(False)
                loop.add_reader(made[card], self._receive, made[card], card, proof)
            yield made
        finally:
            for one in made.values():
                loop.remove_reader(one)
                one.close()

    def _receive(self, source: socket.socket, card: str, proof: CardProof) -> None:
        with contextlib.suppress(OSError):  # the card is down; that is what is to be found out
            take(proof, decode(source.recv(2048)), self._frame(card, proof))

    def _send(self, sockets: Mapping[str, socket.socket], proofs: Mapping[str, CardProof]) -> None:
        for card, target in sockets.items():
            proof = proofs[card]
            with contextlib.suppress(OSError):
                target.send(encode(self._address(card), self._frame(card, proof)))
                proof.sent += 1

    def _frame(self, card: str, proof: CardProof) -> Frame:
        run = hashlib.sha256(self.own + card.encode()).digest()[:_RUN]
        who = digest(self.session), digest(self.host), run
        echo, heard = proof.answer()
        return Frame(*who, echo, card, proof.sent, heard)

    def _address(self, card: str) -> bytes:
        text = links.permanent_address(self.root, card).replace(":", "")
        try:
            return bytes.fromhex(text)[:6].ljust(6, b"\0")
        except ValueError:
            return bytes(6)
