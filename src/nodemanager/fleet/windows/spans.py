"""Spans of time, and arithmetic with many of them; all moments are in UTC."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple


class Span(NamedTuple):
    """From one moment until just before another."""

    start: datetime
    end: datetime


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the same time as ordered spans that neither overlap nor touch."""
    found: list[Span] = []
    for span in sorted(span for span in spans if span.start < span.end):
        if found and span.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def without(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    """Return the time that is in the first but not in the second."""
    left, cuts = union(spans)[::-1], union(removed)[::-1]
    found: list[Span] = []
    while left:
        span = left.pop()
        while cuts and cuts[-1].end <= span.start:
            cuts.pop()
        if not cuts or cuts[-1].start >= span.end:
            found.append(span)
            continue
        if cuts[-1].start > span.start:
            found.append(Span(span.start, cuts[-1].start))
        if cuts[-1].end < span.end:
            left.append(Span(cuts[-1].end, span.end))
    return found


def within(spans: Iterable[Span], limits: Span) -> list[Span]:
    """Return the part of the spans that lies in another one."""
    cut = (Span(max(one.start, limits.start), min(one.end, limits.end)) for one in spans)
    return [span for span in cut if span.start < span.end]
