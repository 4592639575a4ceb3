"""What happens to three hosts and their API in a chaos run: decided by a seed alone, before anything happens.

    for act in schedule(seed=7, seconds=1800, hosts=("alpha", "beta", "gamma")):
        act.at      seconds since the start
        act.kind    what happens
        act.host    to whom; empty = to the API, or to everybody
        act.what    how: seconds, a path, a number

Every spell that begins ends, too, before the next checkpoint; at a checkpoint nothing is broken, and
everything that was promised must become true.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ROUND_SECONDS: Final = 75.0
"""Time between two checkpoints."""
MEAN_SECONDS: Final = 2.2
"""Time between two acts."""
FOLDERS: Final = 4
FILES: Final = 5
"""Per folder."""
SPELLS: Final = {"outage": 12.0, "cut": 12.0, "full": 8.0, "clock": 15.0, "contest": 9.0}
"""What lasts, and for how long at most."""
WEIGHTS: Final = {
    "edit": 6, "kill": 6, "power": 2, "drift": 14,
    "outage": 2, "cut": 3, "full": 3, "clock": 3, "contest": 2,
}  # fmt: skip
DRIFTS: Final = ("content", "mode", "delete", "link", "folder", "stop", "disable")
JUMPS: Final = (-7200, -600, -61, 61, 600, 7200)
"""Seconds."""
CHECK: Final = "check"


@dataclass(frozen=True, slots=True, order=True)
class Act:
    """One thing that happens."""

    at: float
    kind: str
    host: str = ""
    what: str = ""

    def __str__(self) -> str:
        return f"{self.at:8.2f} {self.kind:12} {self.host or '-':8} {self.what}"


def schedule(seed: int, seconds: float, hosts: Sequence[str]) -> list[Act]:
    """Return everything that will happen, in order; the same for the same arguments."""
    chance = random.Random(seed)
    acts: list[Act] = []
    begin = 0.0
    while begin < seconds:
        end = min(begin + ROUND_SECONDS, seconds)
        acts += _round(chance, begin, end, hosts)
        acts.append(Act(end, CHECK))
        begin = end
    return acts


def _round(chance: random.Random, begin: float, end: float, hosts: Sequence[str]) -> list[Act]:
    acts = [Act(begin, "edit")]
    busy: dict[tuple[str, str], float] = {}
    at = begin + chance.expovariate(1 / MEAN_SECONDS)
    while at < end - 1.0:
        kind = chance.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
        host = "" if kind in ("edit", "outage") else chance.choice(hosts)
        if kind in SPELLS:
            until = min(at + chance.uniform(1.0, SPELLS[kind]), end)
            if busy.get((kind, host), 0.0) < at:  # one of a kind at a time
                busy[kind, host] = until
                acts += [Act(at, kind, host, _how(chance, kind)), Act(until, f"{kind}-ends", host)]
        else:
            acts.append(Act(at, kind, host, _how(chance, kind)))
        at += chance.expovariate(1 / MEAN_SECONDS)
    return sorted(acts)


def _how(chance: random.Random, kind: str) -> str:
    path = f"{chance.randrange(FOLDERS)}/{chance.randrange(FILES)}"
    if kind == "drift":
        return f"{chance.choice(DRIFTS)} {path}"
    if kind == "contest":
        return path
    if kind == "full":
        return chance.choice(("files", "state"))
    if kind == "clock":
        return str(chance.choice(JUMPS))
    if kind == "outage":
        return chance.choice(("TERM", "KILL"))
    return ""
