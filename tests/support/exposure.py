"""Who ever had something, such as a revision of a ConfigSet, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from nodemanager.kube.wording import plural


class Exposure(NamedTuple):
    """Who ever had something."""

    hosts: frozenset[str]
    seconds: float
    """How long the one that had it longest did, of those that have it no more."""

    def __str__(self) -> str:
        return f"{plural(len(self.hosts), 'host')} had it, at most for {self.seconds:.2f} s"


@dataclass
class Moves:
    """Which host came to have what, and when; in this order."""

    made: list[tuple[str, object, float]] = field(default_factory=list)

    def took(self, host: str, what: object, at: float) -> None:
        self.made.append((host, what, at))

    def exposure(self, what: object) -> Exposure:
        """Return who ever had something."""
        lasted = dict.fromkeys(self.who_had(what), 0.0)
        for host in lasted:
            mine = [(had, at) for name, had, at in self.made if name == host]
            lasted[host] = sum(end - at for (had, at), (_, end) in pairwise(mine) if had == what)
        return Exposure(frozenset(lasted), max(lasted.values(), default=0.0))

    def who_had(self, what: object) -> list[str]:
        """Return the hosts that ever had something, in the order in which they took it."""
        return list(dict.fromkeys(host for host, had, _ in self.made if had == what))

    def first(self, host: str, what: object) -> float:
        """Return when a host took something first."""
        return next(at for name, had, at in self.made if (name, had) == (host, what))


@dataclass
class HostWatch:
    """Looks all the time, from outside, what each host has."""

    hosts: Iterable[str]
    has: Callable[[str], str]
    moves: Moves = field(default_factory=Moves)
    _last: dict[str, str] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def _look(self) -> None:
        while not self._over.wait(0.01):
            for host in self.hosts:
                found = self.has(host)
                if found != self._last.get(host, ""):
                    self.moves.took(host, found, time.monotonic())
                    self._last[host] = found

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look until the end of the block."""
        thread = threading.Thread(target=self._look, name="watch")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(20)
