"""Which records of a host's own chain its status tells, and which of these the operator takes to its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record
from nodemanager.api.common.audit_chain import MAX_TOLD, MAX_TOLD_LINE

AGENT: Final = "agent"
"""Who did it, where no person did."""
MAX_NOTABLE: Final = MAX_TOLD // 2
"""How many of them are shown although there are newer records of other sorts."""
_BY_HAND: Final = ("apply", "prune", "hold", "unhold", "restore", "begin", "end")
_DRIFTS: Final = ("repair", "observe")
_CHAIN: Final = ("replaced", "cut", "lost")


def is_notable(record: Record) -> bool:
    """Tell whether the log of the fleet has it, too: done by hand, a drift, or something about the chain.

    Of other verbs nothing is taken: a host must not say there what only the operator or people may say.
    """
    by_hand = record.actor.name not in ("", AGENT) and record.verb in _BY_HAND
    return by_hand or record.verb in _DRIFTS or (record.aspect == "chain" and record.verb in _CHAIN)


def told(lines: Sequence[bytes]) -> list[str]:
    """Return the newest records for the status: few, in order, and each a plain line."""
    found = [
        (line, one) for each in lines if (line := _plain(each)) and (one := records.decoded(each)) is not None
    ]
    notable = [place for place, (_, one) in enumerate(found) if is_notable(one)][-MAX_NOTABLE:]
    others = [place for place in range(len(found)) if place not in notable]
    chosen = sorted([*notable, *others[max(len(others) - MAX_TOLD + len(notable), 0) :]])
    return [found[place][0] for place in chosen]


def _plain(line: bytes) -> str:
    """Return a line that a status may have; empty = it is too long, or has what steers a terminal."""
    text = line.decode(errors="replace") if len(line) <= MAX_TOLD_LINE else ""
    return text if text.isprintable() else ""
