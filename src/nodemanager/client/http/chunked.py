"""The chunked transfer coding of HTTP/1.1, read in bulk.

h11 makes an event of every chunk, and an API server sends a chunk for every watch event or two;
for what one chunk costs there, this reads many (docs/adr/0006-chunks.md). Tests hold the two
against each other.
"""

from __future__ import annotations

import re

from nodemanager.kube import errors

MAX_LINE = 4096
"""Longest line between two chunks, and longest trailer."""
_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})(?:;[^\x00-\x08\n-\x1f\x7f]*)?[ \t]*")
_TRAILERS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\n-\x1f\x7f]*\r\n)*\r\n")


class ChunkedBody:
    """Takes what comes from the socket, gives what the chunks contain."""

    def __init__(self) -> None:
        self.complete = False
        self._rest = b""
        """The beginning of a line that is not complete yet."""
        self._left = 0
        """Bytes of the present chunk that are still to come."""
        self._lead = b""
        """The line end that is due behind a chunk, before the size of the next one."""
        self._trailer = False

    def feed(self, data: bytes) -> bytes:
        """Return the payload of these bytes, maybe none; what follows the body is an error."""
        data = self._rest + data if self._rest else data
        parts: list[bytes] = []
        position, size = 0, len(data)
        while position < size and not self._trailer:
            if self._left:
                piece = data[position : position + self._left]
                parts.append(piece)
                position += len(piece)
                self._left -= len(piece)
                self._lead = b"\r\n"
                continue
            end = data.find(b"\r\n", position + len(self._lead), position + MAX_LINE)
            if end < 0:
                break
            self._left = self._size(data[position:end])
            self._trailer = not self._left
            position = end + 2
        self._keep(data[position:])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _size(self, line: bytes) -> int:
        match = _SIZE.fullmatch(line, len(self._lead))
        if match is None or not line.startswith(self._lead):
            raise errors.ProtocolError(f"cannot read the answer: {line[:32]!r} is not the size of a chunk")
        self._lead = b""
        return int(match[1], 16)

    def _keep(self, rest: bytes) -> None:
        """Remember an incomplete line; behind the last chunk, skip the trailers up to the empty line."""
        self._rest = rest
        if self._trailer:
            self.complete = _TRAILERS.fullmatch(rest) is not None
            if not self.complete and (rest.startswith(b"\r\n") or b"\r\n\r\n" in rest):
                raise errors.ProtocolError("cannot read the answer: there is something behind its end")
        if not self.complete and len(rest) >= MAX_LINE:
            raise errors.ProtocolError("cannot read the answer: a line between its chunks does not end")
