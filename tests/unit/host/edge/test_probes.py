"""Cards proven by frames over sockets that a test cuts, and loss that a ping tells of."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodemanager.host.base import HostError, How
from nodemanager.host.edge import loss_probe, path_probe
from nodemanager.host.edge.path_probe import CardProof, Frame, FrameProbe
from nodemanager.host.process.runner import Completed

CARDS = ("eth1", "eth2")


class Cables:
    """Two hosts with two cards each; a cable is a pair of sockets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ends: dict[tuple[str, str], socket.socket] = {}
        for host in ("a", "b"):
            bonding = folder / host / "sys/class/net/bond0/bonding"
            bonding.mkdir(parents=True)
            (bonding / "slaves").write_text(" ".join(CARDS))
            (bonding / "mode").write_text("balance-rr 0")

    def join(self, near: str, far: str) -> None:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ends["a", near], self.ends["b", far] = one, other

    def cut(self, host: str, card: str) -> None:
        """Have one end send into nothing, with its carrier up, and hear nobody."""
        self.ends["unused", f"{host}{card}"] = self.ends[host, card]
        self.ends[host, card], lost = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ends["lost", f"{host}{card}"] = lost

    def probe(self, host: str, session: str = "s", frames: int = 3) -> FrameProbe:
        return FrameProbe(
            self.folder / host, session, host, frames, lambda card: self.ends[host, card].dup(),
            interval=0.001, linger=0.05,
        )  # fmt: skip

    async def both(self, seconds: float) -> list[dict[str, CardProof]]:
        found = await asyncio.gather(*(self.probe(host).run("bond0", seconds) for host in ("a", "b")))
        return [dict(one) for one in found]


@pytest.fixture(name="cables")
def _cables(tmp_path: Path) -> Iterator[Cables]:
    made = Cables(tmp_path)
    yield made
    for one in made.ends.values():
        one.close()


async def test_every_card_is_proven_in_both_directions(cables: Cables) -> None:
    for card in CARDS:
        cables.join(card, card)
    for proofs in await cables.both(60):
        assert all(one.proven(3) for one in proofs.values())
        assert {card: one.cards for card, one in proofs.items()} == {card: {card} for card in CARDS}


async def test_crossed_cables_are_told(cables: Cables) -> None:
    cables.join("eth1", "eth2")
    cables.join("eth2", "eth1")
    a, b = await cables.both(60)
    assert (a["eth1"].cards, b["eth1"].cards) == ({"eth2"}, {"eth2"})
    assert all(one.proven(3) for one in (*a.values(), *b.values()))


async def test_cards_on_one_switch_are_proven_though_each_hears_all_others(cables: Cables) -> None:
    """As in the lab, where none was proven: a peer has heard more on one card than we had sent on that."""
    ports: list[socket.socket] = []
    for key in [(host, card) for host in ("a", "b") for card in CARDS]:
        cables.ends[key], port = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        cables.ends["switch", "".join(key)] = port
        port.setblocking(False)
        ports.append(port)

    def flood(source: socket.socket) -> None:
        data = source.recv(2048)
        for port in ports:
            if port is not source:
                with contextlib.suppress(OSError):
                    port.send(data)

    for port in ports:
        asyncio.get_running_loop().add_reader(port, flood, port)
    try:
        for proofs in await cables.both(60):
            assert all(one.proven(3) for one in proofs.values())
            assert {card: one.cards for card, one in proofs.items()} == {card: {*CARDS} for card in CARDS}
    finally:
        for port in ports:
            asyncio.get_running_loop().remove_reader(port)


async def test_a_dead_path_with_carrier_is_found_on_both_ends(cables: Cables) -> None:
    for card in CARDS:
        cables.join(card, card)
    cables.cut("b", "eth2")
    for proofs in await cables.both(2):
        assert proofs["eth1"].proven(3)
        assert not proofs["eth2"].proven(3)
        assert "0 heard there, 0 heard here, of nobody" in proofs["eth2"].words()


async def test_cards_that_are_left_prove_nothing_of_one_that_is_missing(cables: Cables) -> None:
    for card in CARDS:
        cables.join(card, card)
    slaves = cables.folder / "a/sys/class/net/bond0/bonding/slaves"
    slaves.write_text("eth1")
    with pytest.raises(HostError, match="cannot probe the cards of bond0: it has eth1, and shall have 2"):
        await cables.probe("a").run("bond0", 0.05, 2)
    slaves.write_text("")
    with pytest.raises(HostError, match="cannot probe the cards of bond0: it has none, and shall have 2"):
        await cables.probe("a").run("bond0", 0.05, 2)
    with pytest.raises(HostError, match="cannot probe the cards of bond0: it has none"):
        await cables.probe("a").run("bond0", 60)


async def test_a_card_that_is_back_in_time_is_probed(cables: Cables) -> None:
    """As a moment after a flip."""
    for card in CARDS:
        cables.join(card, card)
    slaves = cables.folder / "a/sys/class/net/bond0/bonding/slaves"
    slaves.write_text("eth1")
    asyncio.get_running_loop().call_later(0.05, slaves.write_text, " ".join(CARDS))
    found, _ = await asyncio.gather(cables.probe("a").run("bond0", 60, 2), cables.probe("b").run("bond0", 60))
    assert {card: one.proven(3) for card, one in found.items()} == dict.fromkeys(CARDS, True)


async def test_a_path_in_one_direction_is_none(cables: Cables) -> None:
    """A hears b, and b hears nothing: both know."""
    for card in CARDS:
        cables.join(card, card)
    one_way = cables.ends["b", "eth2"]
    send, void = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    cables.ends["b", "eth2"] = send
    void.setblocking(False)

    async def forward() -> None:
        while True:
            with contextlib.suppress(BlockingIOError):
                one_way.send(void.recv(2048))
            await asyncio.sleep(0.001)

    moving = asyncio.ensure_future(forward())
    a, b = await cables.both(2)
    moving.cancel()
    one_way.close()
    void.close()
    assert (a["eth2"].heard > 3, a["eth2"].heard_there, b["eth2"].heard) == (True, 0, 0)
    assert not a["eth2"].proven(3)
    assert not b["eth2"].proven(3)


async def test_frames_of_another_probe_and_our_own_do_not_count(cables: Cables) -> None:
    for card in CARDS:
        cables.join(card, card)
    found = await asyncio.gather(
        cables.probe("a").run("bond0", 0.3), cables.probe("b", session="other").run("bond0", 0.3)
    )
    assert {one.heard for proofs in found for one in proofs.values()} == {0}
    own = frame_of("a", "run of a", "", 9)
    proof = CardProof()
    path_probe.take(proof, own, own)
    assert proof == CardProof(), "a switch gave it back"


def frame_of(host: str, run: str, echo: str, heard: int) -> Frame:
    """Return a frame of session s."""
    digest = path_probe.digest
    return Frame(digest("s"), digest(host), digest(run), digest(echo), "eth1", 1, heard)


def test_what_a_peer_heard_before_this_run_began_proves_nothing() -> None:
    """An agent was restarted meanwhile, and the path to its peer went dead."""
    own, proof = frame_of("a", "second", "", 0), CardProof(sent=50)
    for _ in range(20):
        path_probe.take(proof, frame_of("b", "of b", "first", 40), own)
    assert (proof.heard, proof.heard_there, proof.proven(10)) == (20, 0, False)
    path_probe.take(proof, frame_of("b", "of b", "second", 10), own)
    assert proof.proven(10)


def test_nobody_has_heard_more_than_was_sent() -> None:
    own, proof = frame_of("a", "of a", "", 0), CardProof(sent=5)
    for _ in range(20):
        path_probe.take(proof, frame_of("b", "of b", "of a", 2**32 - 1), own)
    assert not proof.proven(5)


def test_two_peers_are_not_one() -> None:
    """One is heard and does not hear, of the other one frame came through that says that it hears."""
    own, proof = frame_of("a", "of a", "", 0), CardProof(sent=50)
    for _ in range(20):
        path_probe.take(proof, frame_of("b", "of b", "of a", 0), own)
    path_probe.take(proof, frame_of("c", "of c", "of a", 20), own)
    assert not proof.proven(10)
    assert {run for proof.sent in range(2) for run in proof.answer()[:1]} == set(proof.peers)


def test_a_flood_of_peers_is_bounded() -> None:
    own, proof = frame_of("a", "of a", "", 0), CardProof()
    for number in range(1000):
        path_probe.take(proof, frame_of(f"h{number}", f"r{number}", "", 0), own)
    assert len(proof.peers) == 16


def test_a_frame_is_read_as_it_was_sent() -> None:
    frame = frame_of("a", "of a", "of b", 3)._replace(card="enp0s31f6")
    data = path_probe.encode(bytes.fromhex("525400000001"), frame)
    assert path_probe.decode(data) == frame
    assert 60 <= len(data) <= 1514
    assert (data[:6], data[12:14]) == (b"\xff" * 6, b"\x88\xb5")
    assert data[6:12] == path_probe.sender(bytes.fromhex("525400000001"))


@given(st.lists(st.binary(min_size=6, max_size=6), min_size=2, max_size=4, unique=True))
@example([bytes.fromhex("525400000001"), bytes.fromhex("525400000002")])
def test_no_frame_comes_from_the_address_of_a_card_which_may_be_that_of_the_bond(cards: list[bytes]) -> None:
    """Also where these are local already, as in virtual machines: switches would send there what is its."""
    senders = [path_probe.sender(one) for one in cards]
    assert not set(senders) & set(cards)
    assert len(set(senders)) == len(cards)
    assert all(one[0] & 0x03 == 0x02 for one in senders), "local, and never of a group"


@given(st.binary(max_size=200))
def test_any_frame_is_read_or_is_none_of_ours(data: bytes) -> None:
    for one in (data, bytes(12) + b"\x88\xb5nmp1" + data):
        found = path_probe.decode(one)
        assert found is None or found.card.isprintable()


async def test_no_bond_and_no_cards(cables: Cables, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="there is no such bond"):
        await cables.probe("a").run("bond9", 1)
    (tmp_path / "a/sys/class/net/bond0/bonding/slaves").write_text("")
    with pytest.raises(HostError, match="it has none"):
        await cables.probe("a").run("bond0", 1)


def test_a_real_socket_of_a_card_that_is_not_there() -> None:
    try:
        with pytest.raises(HostError, match="cannot probe nosuchcard: No such device"):
            path_probe.packet_socket("nosuchcard")
    except PermissionError:
        pytest.skip("only root may open packet sockets")


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        pytest.param("50 packets transmitted, 50 received, 0% packet loss, time 9812ms", (50, 50), id="all"),
        pytest.param("50 packets transmitted, 24 received, 52% packet loss", (50, 24), id="half"),
        pytest.param("3 packets transmitted, 0 received, +3 errors, 100% packet loss", (3, 0), id="none"),
        pytest.param("2 packets transmitted, 2 packets received, 0% packet loss", (2, 2), id="busybox"),
    ],
)
def test_what_ping_says(said: str, counts: tuple[int, int]) -> None:
    assert loss_probe.parse(f"PING 10.0.0.2\n\n--- statistics ---\n{said}\n") == counts


async def test_pings_are_as_large_as_the_link_takes_and_in_one_piece(tmp_path: Path) -> None:
    ran: list[list[str]] = []

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        ran.append([*argv])
        assert how["timeout"] > 50
        return Completed(tuple(argv), 0, b"50 packets transmitted, 49 received", b"")

    (tmp_path / "sys/class/net/bond0").mkdir(parents=True)
    (tmp_path / "sys/class/net/bond0/mtu").write_text("9000\n")
    lost = await loss_probe.probe(run, tmp_path, "10.0.0.2", "bond0", 50, 60)
    assert lost.words() == "49 of 50 pings of 9000 bytes"
    await loss_probe.probe(run, tmp_path, "fd00::2", "bond0", 50, 60)
    await loss_probe.probe(run, tmp_path, "10.0.0.2", "", 50, 60)
    usual = "-n -q -c 50 -i 0.2 -l 10 -W 1"
    assert [" ".join(one) for one in ran] == [
        f"ping -4 {usual} -I bond0 -M do -s 8972 10.0.0.2",
        f"ping -6 {usual} -I bond0 -M do -s 8952 fd00::2",
        f"ping -4 {usual} 10.0.0.2",
    ]
    with pytest.raises(HostError, match="cannot ping from bond9: there is no such link"):
        await loss_probe.probe(run, tmp_path, "10.0.0.2", "bond9", 50, 60)


async def test_a_ping_that_does_not_count_is_an_error(tmp_path: Path) -> None:
    async def run(argv: Sequence[str], **_how: Unpack[How]) -> Completed:
        return Completed(tuple(argv), 2, b"", b"ping: connect: Network is unreachable")

    with pytest.raises(HostError, match=r"cannot ping 10.0.0.2: ping: connect: Network is unreachable"):
        await loss_probe.probe(run, tmp_path, "10.0.0.2", "", 5, 60)
