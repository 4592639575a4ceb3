"""Measures for how long a host is without an agent that works: one that answers on its socket."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self

from support.nspawn import Machine

POLL_SECONDS = 0.2
ANSWER_SECONDS = 20.0


def ask(machine: Machine) -> dict[str, Any]:
    """Return what the agent of a machine says of itself; empty if there is none that answers."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_SECONDS)
            line.connect(f"/proc/{machine.leader}/root/run/nodemanager/agent.sock")
            line.sendall(b"once\n")
            said = b""
            while not said.endswith(b"\n"):
                more = line.recv(65536)
                if not more:
                    return {}
                said += more
            found: dict[str, Any] = json.loads(said)
            return found
    except OSError:
        return {}


@dataclass
class Gaps:
    """Asks an agent all the time; while the machine is off, no time passes."""

    machine: Machine
    longest: float = 0.0
    _gap: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join(60)

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._over.wait(POLL_SECONDS):
            works, now = bool(ask(self.machine)) if self.machine.leader else False, time.monotonic()
            self._gap = 0.0 if works else self._gap + (now - last if self.machine.leader else 0.0)
            self.longest, last = max(self.longest, self._gap), now
