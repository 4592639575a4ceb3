"""Measures get, list, create and apply of ManagedNodes, on each server in turn.

    python -m bench.children.requests ROUNDS SEQUENTIAL CONCURRENT KUBECONFIG...

Each round does every operation on every server, so that what else the machine does hits all of them. Both
the servers and this process share the machine's processors: with more connections than one, that is part of
what is measured.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from bench import nodes
from bench.children.wire import APPLY, Refused, Target, Wire
from nodemanager.api.common.managednode import MANAGED_NODES

CONNECTIONS = 16
LISTED = 1000
LIST_SHARE = 20
"""A list of a thousand is worth this many other requests."""
NAMESPACE = "nodemanager"
_COLLECTION = MANAGED_NODES.path(NAMESPACE)

Operation = Callable[[Wire, int], object]


def main(rounds: int, sequential: int, concurrent: int, kubeconfigs: list[str]) -> dict[str, Any]:
    """Return, per operation and form, per server and round: all latencies, and requests per second."""
    sides = [Side(Target(path)) for path in kubeconfigs]
    for side in sides:
        side.populate(LISTED)
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for number in range(rounds + 1):  # the first round warms up: caches, and Python's own inner ones
        for name in Side.OPERATIONS:
            for count, threads in ((sequential, 1), (concurrent, CONNECTIONS)):
                amount = max(2, threads, count // LIST_SHARE if name == "list" else count)
                measured = [side.measure(name, amount, threads) for side in sides]
                if number:
                    found.setdefault(f"{name}, {threads}", []).append(measured)
    return found


class Side:
    """One server, with a namespace of nodes of a known size."""

    OPERATIONS = ("get", "list", "create", "apply")

    def __init__(self, target: Target) -> None:
        self._target = target
        self._wires = [target.connect() for _ in range(CONNECTIONS)]
        self._next = LISTED

    def populate(self, count: int) -> None:
        """Create nodes with the status that an agent reports."""
        ensure_namespace(self._wires[0])
        self._run(create_with_status, range(count), CONNECTIONS)

    def measure(self, name: str, count: int, threads: int) -> dict[str, Any]:
        """Return the latencies of requests over so many connections, and the requests per second."""
        numbers = range(count)
        if name == "create":
            numbers = range(self._next, self._next + count)
            self._next += count
        started = time.perf_counter()
        latencies = self._run(getattr(self, f"_{name}"), numbers, threads)
        seconds = time.perf_counter() - started
        if name == "create":  # so that lists stay as long as they are said to be
            self._run(lambda wire, number: wire.exchange("DELETE", _path(number)), numbers, CONNECTIONS)
        return {"latencies": latencies, "rate": count / seconds}

    def _run(self, operation: Operation, numbers: range, threads: int) -> list[float]:
        latencies: list[float] = []
        failures: list[BaseException] = []

        def work(wire: Wire, share: range) -> None:
            try:
                for number in share:
                    started = time.perf_counter()
                    operation(wire, number)
                    latencies.append(time.perf_counter() - started)
            except BaseException as error:  # noqa: BLE001 - it is raised where it can be seen
                failures.append(error)

        workers = [
            threading.Thread(target=work, args=(wire, numbers[start::threads]))
            for start, wire in enumerate(self._wires[:threads])
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if failures:
            raise failures[0]
        return latencies

    def _get(self, wire: Wire, number: int) -> None:
        wire.exchange("GET", _path(number % LISTED))

    def _list(self, wire: Wire, number: int) -> None:  # noqa: ARG002 - all operations are called alike
        wire.exchange("GET", _COLLECTION)

    def _create(self, wire: Wire, number: int) -> None:
        wire.exchange("POST", _COLLECTION, nodes.wanted(number))

    def _apply(self, wire: Wire, number: int) -> None:
        apply_status(wire, number % LISTED, revision=time.monotonic_ns() % 10**9)


def ensure_namespace(wire: Wire) -> None:
    """Create the namespace that the nodes are in, unless it is there."""
    try:
        wire.exchange("POST", "/api/v1/namespaces", b'{"metadata":{"name":"%s"}}' % NAMESPACE.encode())
    except Refused as error:
        if "409" not in str(error):
            raise


def create_with_status(wire: Wire, number: int) -> None:
    """Create a node and report its status, as person and agent do."""
    wire.exchange("POST", _COLLECTION, nodes.wanted(number))
    apply_status(wire, number, revision=1)


def apply_status(wire: Wire, number: int, revision: int) -> None:
    """Report the status of a node by server-side apply."""
    path = f"{_path(number)}/status?fieldManager=nodemanager&force=true"
    wire.exchange("PATCH", path, nodes.reported(number, revision), APPLY)


def _path(number: int) -> str:
    return MANAGED_NODES.path(NAMESPACE, nodes.name(number))


if __name__ == "__main__":
    amounts = [int(text) for text in sys.argv[1:4]]
    print(json.dumps(main(amounts[0], amounts[1], amounts[2], sys.argv[4:])))
