"""When a ConfigSet is enforced: spans of time that were worked out before, so that hosts need no calendar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, ClassVar, Final

from nodemanager.kube import times
from nodemanager.kube.hints import PRINTABLE, Rule, meta
from nodemanager.kube.objects import Struct

MAX_OPENINGS: Final = 64
WAITS: Final = "waits for its window to open"


class EnforcedSpan(Struct):
    """One opening."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("!has(self.end) || self.start < self.end", "must be before end", ".start"),
    )

    start: Annotated[str, meta("From this moment on.", format="date-time", required=True, max_length=64)] = ""
    end: Annotated[
        str | None, meta("Until this moment; omitted: with no end.", format="date-time", max_length=64)
    ] = None


class Enforcement(Struct):
    """When a set is enforced."""

    openings: Annotated[
        list[EnforcedSpan],
        meta("When hosts make the set so. None: never.", max_items=MAX_OPENINGS),
    ] = []
    window: Annotated[
        str, meta("What they were worked out from, for people.", pattern=PRINTABLE, max_length=512)
    ] = ""


def is_open(enforcement: Enforcement | None, now: datetime) -> bool:
    """Tell whether a set is enforced at a moment."""
    return enforcement is None or any(
        start <= now and (end is None or now < end) for start, end in _spans(enforcement)
    )


def closes_at(enforcement: Enforcement | None, now: datetime) -> datetime | None:
    """Return when a set that is enforced at a moment is so no longer; None: no end is in sight."""
    if enforcement is None:
        return None
    ends = [end for start, end in _spans(enforcement) if start <= now and (end is None or now < end)]
    return None if None in ends else max((one for one in ends if one is not None), default=None)


def opens_at(enforcement: Enforcement | None, now: datetime) -> datetime | None:
    """Return when a set is enforced next; None: at no time that is known."""
    starts = (start for start, _ in _spans(enforcement or Enforcement()) if start > now)
    return min(starts, default=None)


def next_edge(all_of_them: Iterable[Enforcement | None], now: datetime) -> datetime | None:
    """Return when something opens or closes next."""
    edges = (
        edge
        for one in all_of_them
        if one is not None
        for span in _spans(one)
        for edge in span
        if edge is not None and edge > now
    )
    return min(edges, default=None)


def _spans(enforcement: Enforcement) -> Iterator[tuple[datetime, datetime | None]]:
    """Yield the openings; one that cannot be read is none: while in doubt, nothing is changed."""
    for one in enforcement.openings:
        start, end = times.parse(one.start), times.parse(one.end) if one.end else None
        if start is not None and (end is not None or not one.end):
            yield start, end
