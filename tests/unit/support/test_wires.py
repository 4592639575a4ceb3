"""Cables and switches of the lab, with sockets in the place of guests."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from support.lab.wires import Card, Relay, Switch

WAIT = 60.0
QUIET = b"\xff" * 6
FIRST, SECOND = (bytes([2, 0, 0, 0, 0, number]) for number in range(2))


class Peer:
    """A guest that is nothing but the other end of a card."""

    def __init__(self, card: Card) -> None:
        words = dict(one.partition("=")[::2] for one in card.netdev("x").split(",")[1:])
        self._relay, mine = (_address(words[one]) for one in ("udp", "localaddr"))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(mine)
        self.socket.settimeout(WAIT)

    def send(self, frame: bytes) -> None:
        self.socket.sendto(frame, self._relay)

    def next(self) -> bytes:
        return self.socket.recv(65536)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def frame(to: bytes, frm: bytes, text: str) -> bytes:
    return to + frm + text.encode()


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay(seed=1) as made:
        yield made


@pytest.fixture
def three(relay: Relay) -> Iterator[tuple[list[Card], list[Peer]]]:
    cards = [relay.card() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        peers = [Peer(card) for card in cards]
        for peer in peers:
            stack.enter_context(peer.socket)
        yield cards, peers


def test_a_cable_takes_frames_both_ways_and_to_nobody_else(
    relay: Relay, three: tuple[list[Card], list[Peer]]
) -> None:
    cards, peers = three
    relay.cable(cards[0], cards[1])
    peers[0].send(b"there")
    assert peers[1].next() == b"there"
    peers[1].send(b"back")
    assert peers[0].next() == b"back"
    peers[2].socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        peers[2].next()


def test_what_a_cut_cable_takes_is_gone_and_a_mended_one_works(
    relay: Relay, three: tuple[list[Card], list[Peer]]
) -> None:
    cards, peers = three
    line = relay.cable(cards[0], cards[1])
    line.cut = True
    peers[0].send(b"lost")
    wait_for_sent(cards[0], 1)
    line.cut = False
    peers[0].send(b"kept")
    assert peers[1].next() == b"kept"


def test_a_lossy_cable_loses_its_share(relay: Relay, three: tuple[list[Card], list[Peer]]) -> None:
    cards, peers = three
    line = relay.cable(cards[0], cards[1])
    line.loss = 0.5
    for number in range(200):
        peers[0].send(b"%d" % number)
    wait_for_sent(cards[0], 200)
    line.loss = 0.0
    peers[0].send(b"last")
    arrived = 0
    while peers[1].next() != b"last":
        arrived += 1
    assert 60 < arrived < 140


def test_a_long_cable_takes_its_time_and_keeps_the_order(
    relay: Relay, three: tuple[list[Card], list[Peer]]
) -> None:
    cards, peers = three
    relay.cable(cards[0], cards[1]).delay = 0.05
    began = time.monotonic()
    for text in (b"one", b"two"):
        peers[0].send(text)
    assert (peers[1].next(), peers[1].next()) == (b"one", b"two")
    assert time.monotonic() - began >= 0.05


def test_an_end_has_one_cable_at_a_time(relay: Relay, three: tuple[list[Card], list[Peer]]) -> None:
    cards, peers = three
    line = relay.cable(cards[0], cards[1])
    with pytest.raises(ValueError, match="another one in this end"):
        relay.cable(cards[0], cards[2])
    line.unplug()
    relay.cable(cards[0], cards[2])
    peers[0].send(b"crossed")
    assert peers[2].next() == b"crossed"


def test_a_switch_floods_until_it_knows_and_again_when_a_port_died(
    relay: Relay, three: tuple[list[Card], list[Peer]]
) -> None:
    cards, peers = three
    switch = Switch()
    lines = [relay.cable(card, switch.port()) for card in cards]
    peers[0].send(hello := frame(QUIET, FIRST, "hello"))
    assert (peers[1].next(), peers[2].next()) == (hello, hello)
    peers[1].send(answer := frame(FIRST, SECOND, "answer"))
    assert peers[0].next() == answer
    peers[0].send(only := frame(SECOND, FIRST, "for the second alone"))
    assert peers[1].next() == only
    lines[1].cut = True
    peers[0].send(again := frame(SECOND, FIRST, "to all that are left"))
    assert peers[2].next() == again, "and neither the answer nor what was for the second alone"


def test_switches_with_a_cable_between_are_one_network(
    relay: Relay, three: tuple[list[Card], list[Peer]]
) -> None:
    cards, peers = three
    left, right = Switch(), Switch()
    relay.cable(left.port(), right.port())
    relay.cable(cards[0], left.port())
    relay.cable(cards[1], right.port())
    peers[0].send(hello := frame(QUIET, FIRST, "hello"))
    assert peers[1].next() == hello
    peers[1].send(answer := frame(FIRST, SECOND, "answer"))
    assert peers[0].next() == answer


def wait_for_sent(card: Card, count: int) -> None:
    deadline = time.monotonic() + WAIT
    while card.sent < count:
        assert time.monotonic() < deadline, f"{card.sent} of {count} frames came"
        time.sleep(0.005)
