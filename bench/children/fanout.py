"""Measures how fast one change reaches many watchers, on each server in turn, and that every one sees it.

    python -m bench.children.fanout WATCHERS WRITES BURST KUBECONFIG...

WRITES changes are made one at a time, the next when all have seen the last: that gives the delay from a write
that is sent to an event that is received. Then BURST changes are made one right after the other: that gives
the events per second. A watcher that never gets an event, or sees one twice or out of order, fails the run.
"""

from __future__ import annotations

import json
import re
import selectors
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.children.requests import NAMESPACE, apply_status, create_with_status, ensure_namespace
from bench.children.wire import READ_SIZE, Target, Wire, check
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.http.chunked import ChunkedBody

NODE = 99_999
TIMEOUT = 60.0
_SEEN = re.compile(rb'"name":"base","resourceVersion":"(\d+)"')
_OFFSET = 4812
"""What `nodes` adds to the number of a revision."""


class Watcher:
    """One open watch: what arrived and when; looked at only when it is over."""

    def __init__(self, wire: Wire, path: str) -> None:
        wire.send("GET", path)
        head, _, rest = wire.head().partition(b"\r\n\r\n")
        check(head)
        self.sock = wire.sock
        self.sock.setblocking(False)
        self.lines = 0
        self.arrived: list[float] = []
        self._body = ChunkedBody()
        self._text = bytearray()
        self.take(rest)

    def take(self, data: bytes) -> None:
        """Keep what arrived; count the events that are complete."""
        payload = self._body.feed(data) if data else b""
        if self._body.complete:
            raise ConnectionError("cannot measure: the server ended a watch")
        self._text += payload
        count, now = payload.count(b"\n"), time.perf_counter()
        self.arrived.extend([now] * count)
        self.lines += count

    def read(self) -> None:
        """Take everything that is there."""
        while True:
            try:
                data = self.sock.recv(READ_SIZE)
            except (ssl.SSLWantReadError, BlockingIOError):
                return
            if not data:
                raise ConnectionError("cannot measure: the server closed the connection of a watch")
            self.take(data)

    def revisions(self) -> list[int]:
        """Return which changes it saw, in the order of their arrival."""
        lines = bytes(self._text).splitlines()
        return [int(found[1]) - _OFFSET for line in lines if (found := _SEEN.search(line))]


class Side:
    """One server with all its watchers."""

    def __init__(self, target: Target, watchers: int) -> None:
        self._writer = target.connect()
        ensure_namespace(self._writer)
        create_with_status(self._writer, NODE)
        listed = json.loads(self._writer.exchange("GET", f"{MANAGED_NODES.path(NAMESPACE)}?limit=1"))
        version = listed["metadata"]["resourceVersion"]
        path = f"{MANAGED_NODES.path(NAMESPACE)}?watch=1&resourceVersion={version}&timeoutSeconds=600"
        self._watchers = [Watcher(target.connect(), path) for _ in range(watchers)]
        self._ready = selectors.DefaultSelector()
        for watcher in self._watchers:
            self._ready.register(watcher.sock, selectors.EVENT_READ, watcher)
        self._revision = 1

    def one_by_one(self, writes: int) -> list[float]:
        """Return the delay of every event of every watcher, in seconds."""
        delays: list[float] = []
        for _ in range(writes):
            before = [watcher.lines for watcher in self._watchers]
            sent = time.perf_counter()
            self._write_and_follow(1)
            delays += [
                watcher.arrived[count] - sent for watcher, count in zip(self._watchers, before, strict=True)
            ]
        return delays

    def burst(self, writes: int) -> float:
        """Return how many events per second reached the watchers, all of them together."""
        started = time.perf_counter()
        self._write_and_follow(writes)
        return writes * len(self._watchers) / (time.perf_counter() - started)

    def _write_and_follow(self, writes: int) -> None:
        first = self._revision + 1
        self._revision += writes
        with ThreadPoolExecutor(1) as executor:
            writing = executor.submit(self._write, range(first, first + writes))
            self._follow()
            writing.result()

    def _write(self, revisions: range) -> None:
        for revision in revisions:
            apply_status(self._writer, NODE, revision)

    def _follow(self) -> None:
        """Read until every watcher has as many events as there were changes since it began."""
        expected = self._revision - 1
        waiting = {watcher for watcher in self._watchers if watcher.lines < expected}
        deadline = time.perf_counter() + TIMEOUT
        while waiting:
            if time.perf_counter() > deadline:
                raise TimeoutError(
                    f"cannot measure: {len(waiting)} watchers miss an event after {TIMEOUT:g} s"
                )
            for key, _ in self._ready.select(1.0):
                watcher: Watcher = key.data
                watcher.read()
                if watcher.lines >= expected:
                    waiting.discard(watcher)

    def missed(self) -> int:
        """Return how many changes watchers missed; raise when one saw any twice or out of order."""
        expected = range(2, self._revision + 1)
        missed = 0
        for number, watcher in enumerate(self._watchers):
            seen = watcher.revisions()
            if seen != sorted(set(seen)):
                raise ValueError(f"cannot measure: watcher {number} saw {seen}")
            missed += len(set(expected) - set(seen))
            watcher.sock.close()
        self._writer.close()
        return missed


def main(watchers: int, writes: int, burst: int, kubeconfigs: list[str]) -> dict[str, Any]:
    """Return per server all delays, and the events per second of a burst."""
    found = []
    for path in kubeconfigs:
        side = Side(Target(path), watchers)
        delays = side.one_by_one(writes)
        rate = side.burst(burst)
        found.append({"latencies": delays, "rate": rate, "missed": side.missed()})
    return {"sides": found}


if __name__ == "__main__":
    amounts = [int(text) for text in sys.argv[1:4]]
    print(json.dumps(main(amounts[0], amounts[1], amounts[2], sys.argv[4:])))
