"""Proves a link as a whole: by pings of full MTU size, not fragmented, none of which may be lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.host.base import HostError, Runner
from nodemanager.host.edge import links
from nodemanager.host.process.runner import tail

INTERVAL: Final = 0.2
BURST: Final = 10
"""Pings that are sent at once. A bond in balance-rr uses its cards in turn: if both ends ping each other, all
pings of one may leave by one card and all its answers by the other, which hides a dead card."""
_HEADERS: Final = {4: 28, 6: 48}
_RESULT: Final = re.compile(r"(\d+) packets transmitted, (\d+) (?:packets )?received")


class Loss(NamedTuple):
    """How many pings came back."""

    sent: int
    received: int
    size: int
    """Bytes of each ping in total; 0 = small ones."""

    def words(self) -> str:
        """Return it for people."""
        return f"{self.received} of {self.sent} pings{f' of {self.size} bytes' if self.size else ''}"


def command(address: str, interface: str, count: int, size: int) -> list[str]:
    """Return how ping is run; pure."""
    family = 6 if ":" in address else 4
    whole = ["-M", "do", "-s", str(size - _HEADERS[family])] if size else []
    sender = ["-I", interface] if interface else []
    times = ["-c", str(count), "-i", str(INTERVAL), "-l", str(min(BURST, count)), "-W", "1"]
    return ["ping", f"-{family}", "-n", "-q", *times, *sender, *whole, address]


def parse(output: str) -> tuple[int, int]:
    """Return how many pings were sent and came back; raises ValueError where ping does not say; pure."""
    found = _RESULT.search(output)
    if found is None:
        raise ValueError(f"ping does not say how many came back: {output[:200]!r}")
    return int(found[1]), int(found[2])


async def probe(
    run: Runner, root: str | Path, address: str, interface: str, count: int, seconds: float
) -> Loss:
    """Send pings to an address; raises HostError or RunError where that is not possible, or not in time."""
    size = links.mtu(root, interface) if interface else 0
    if interface and not size:
        raise HostError(f"cannot ping from {interface}: there is no such link on this host")
    argv = command(address, interface, count, size)
    ended = await run(argv, timeout=min(count * (INTERVAL + 1) + 10, seconds))
    try:
        return Loss(*parse(ended.stdout.decode("utf-8", "replace")), size)
    except ValueError as error:
        raise HostError(f"cannot ping {address}: {tail(ended.stderr) or error}") from error
