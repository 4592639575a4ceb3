"""CPU time per watch event of the whole informer, beside decoding the same bytes alone."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import processes
from bench.report import Goal, Row, Section
from bench.settings import Settings

NAME = "informer"
GOAL = Goal(3.0, "x")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the informer."""

    what: str
    kubeconfig: Path
    goal: Goal | None = None
    pace: int = 0
    workers: int = 0


def run(settings: Settings) -> Section:
    """Measure all variants; each has its own decoding and reading beside it, taking turns."""
    tls, plain = settings.endpoint.https, settings.endpoint.http
    variants = [
        Variant("informer, TLS", tls, GOAL),
        Variant("informer, HTTP", plain),
        Variant("informer, queue and worker, TLS", tls, workers=1),
        Variant("informer, TLS, one event per read", tls, pace=1),
    ]
    measured = [(variant, _measure(settings, variant)) for variant in variants]
    encrypted, unencrypted = measured[0][1], measured[1][1]
    decode = statistics.median(encrypted["decode"])
    rows = [
        Row("decoding alone", decode, "us", 1.0, note=f"{encrypted['bytes']:.0f} bytes per event"),
        _kept(encrypted),
        _floor("reading and decoding, TLS", encrypted),
        _floor("reading and decoding, HTTP", unencrypted),
        *(_row(variant, result) for variant, result in measured),
    ]
    return Section(NAME, "CPU time per watch event, relative to msgspec decoding of the same bytes", rows)


def _measure(settings: Settings, variant: Variant) -> dict[str, Any]:
    nodes, events = settings.pick(5000, 200), settings.pick(20_000, 1000)
    rounds = settings.pick(7, 2)
    if variant.pace:
        events, rounds = settings.pick(2000, 200), settings.pick(3, 1)
    args = (nodes, events, variant.pace, variant.workers, rounds)
    return processes.measure("bench.children.informer", str(variant.kubeconfig), *map(str, args)).answer


def _kept(result: dict[str, Any]) -> Row:
    """Return what decoding costs when the objects are kept, as a cache must: the memory is not reused."""
    pairs = list(zip(result["keep"], result["decode"], strict=True))
    return Row("decoding and keeping", _median_cost(pairs), "us", _median_ratio(pairs))


def _floor(what: str, result: dict[str, Any]) -> Row:
    """Return what no client can stay below: the bytes must be received, decrypted and decoded."""
    pairs = [(read + decode, decode) for read, decode in zip(result["read"], result["decode"], strict=True)]
    note = "floor: blocking socket, no HTTP, no cache"
    return Row(what, _median_cost(pairs), "us", _median_ratio(pairs), note=note)


def _row(variant: Variant, result: dict[str, Any]) -> Row:
    pairs = list(zip(result["informer"], result["decode"], strict=True))
    floors = [read + decode for read, decode in zip(result["read"], result["decode"], strict=True)]
    above = _median_ratio(list(zip(result["informer"], floors, strict=True)))
    note = f"{above:.1f}x of its floor"
    if variant.pace:
        note = f"{result['events_per_wait']:.1f} events per wake-up"
    return Row(variant.what, _median_cost(pairs), "us", _median_ratio(pairs), variant.goal, note)


def _median_cost(pairs: list[tuple[float, float]]) -> float:
    return statistics.median(cost for cost, _ in pairs)


def _median_ratio(pairs: list[tuple[float, float]]) -> float:
    """Return the median of the ratios of each round, in which both sides had the same noise."""
    return statistics.median(cost / base for cost, base in pairs)
