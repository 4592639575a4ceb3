"""Our reader of chunked bodies beside h11's: the same bytes, the same payload, the same verdict."""

from __future__ import annotations

import h11
import hypothesis
import pytest
from hypothesis import strategies as st

from nodemanager.client.http.chunked import MAX_LINE, ChunkedBody
from nodemanager.kube import errors
from support import examples

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    pieces, position = [], 0
    for size in cuts:
        pieces.append(data[position : position + size])
        position += size
    return [piece for piece in [*pieces, data[position:]] if piece]


def by_us(pieces: list[bytes]) -> tuple[bytes, bool] | None:
    """Return payload and completeness, None for a refusal."""
    body, payload = ChunkedBody(), b""
    try:
        for piece in pieces:
            if body.complete:
                return None  # something behind the end
            payload += body.feed(piece)
    except errors.ProtocolError:
        return None
    return payload, body.complete


def by_h11(data: bytes) -> tuple[bytes, bool] | None:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(HEAD + data)
    payload, complete = b"", False
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Data):
                payload += event.data
            elif isinstance(event, h11.EndOfMessage):
                complete = True
            elif event in (h11.NEED_DATA, h11.PAUSED):
                break
    except h11.RemoteProtocolError:
        return None
    return (payload, complete) if not connection.trailing_data[0] or not complete else None


PAYLOADS = st.lists(st.binary(min_size=1, max_size=60), max_size=6)
EXTENSIONS = st.sampled_from([b"", b";a=b", b" ", b";x \t"])
CUTS = st.lists(st.integers(1, 40))


def encode(payloads: list[bytes], extension: bytes, upper: bool, trailer: bytes) -> bytes:
    sizes = [b"%X" % len(p) if upper else b"%x" % len(p) for p in payloads]
    chunks = [size + extension + b"\r\n" + p + b"\r\n" for size, p in zip(sizes, payloads, strict=True)]
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


@hypothesis.settings(max_examples=examples.some(75), deadline=None)
@hypothesis.given(PAYLOADS, EXTENSIONS, st.booleans(), st.sampled_from([b"", b"a: b\r\n"]), CUTS)
def test_valid_bodies_however_they_are_cut(
    payloads: list[bytes], extension: bytes, upper: bool, trailer: bytes, cuts: list[int]
) -> None:
    data = encode(payloads, extension, upper, trailer)
    assert by_us(cut(data, cuts)) == (b"".join(payloads), True) == by_h11(data)


@hypothesis.settings(max_examples=examples.some(125), deadline=None)
@hypothesis.given(PAYLOADS, st.data(), CUTS)
def test_damaged_bodies_end_in_the_same_verdict(
    payloads: list[bytes], data: st.DataObject, cuts: list[int]
) -> None:
    good = encode(payloads, b"", False, b"")
    place = data.draw(st.integers(0, len(good) - 1))
    change = data.draw(st.sampled_from(["cut off", "flip", "drop", "insert"]))
    other = data.draw(st.sampled_from([b"\r", b"\n", b"0", b"g", b"-", b" ", b"\x00", b"\r\n"]))
    match change:
        case "cut off":
            bad = good[:place]
        case "flip":
            bad = good[:place] + other + good[place + 1 :]
        case "drop":
            bad = good[:place] + good[place + 1 :]
        case _:
            bad = good[:place] + other + good[place:]
    ours, theirs = by_us(cut(bad, cuts)), by_h11(bad)
    if ours is not None and ours[1]:
        # What we take for complete, h11 does, too, and with the same payload. It may take more (a bare
        # \n as a line end), and it may refuse earlier what we still wait for the end of.
        assert theirs == ours, bad


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\r\n", id="no-size"),
        pytest.param(b"-1\r\nx", id="negative"),
        pytest.param(b"0x5\r\nhello\r\n", id="prefix"),
        pytest.param(b"5 5\r\nhello\r\n", id="two-sizes"),
        pytest.param(b"1\r\nab\r\n0\r\n\r\n", id="longer-than-said"),
        pytest.param(b"0\r\nno trailer\r\n\r\n", id="garbage-in-the-trailer"),
        pytest.param(b"fffffffffffffffff\r\n", id="too-large"),
        pytest.param(b"1;" + b"x" * MAX_LINE, id="endless-extension"),
        pytest.param(b"0\r\n" + b"x" * MAX_LINE, id="endless-trailer"),
        pytest.param(b"0\r\n\r\nHTTP/1.1 200 OK", id="something-behind-the-end"),
    ],
)
def test_what_is_refused(data: bytes) -> None:
    with pytest.raises(errors.ProtocolError, match="cannot read the answer"):
        ChunkedBody().feed(data)
