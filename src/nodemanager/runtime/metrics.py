"""Counters, gauges and histograms in the Prometheus text format 0.0.4.

A hand-written registry because the usual library costs a small host two megabytes. A registry
is an argument, never a global. Everything here belongs to one event loop and is not thread-safe.

    total = registry.counter("reconcile_total", "Reconciliations.", ("controller", "result"))
    total.labels("configset", "success").inc()

Asking for a metric that exists returns it, so that several controllers share one family.
Each distinct set of label values is a series that lives until it is removed: code that passes
label values must bound their number, and call `remove` when the thing they name is gone.
"""

from __future__ import annotations

import bisect
import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z")


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` bounds, each `factor` times the one before.

    Multiplied step by step as Go does it: `le` is compared as text, so the last digits matter.
    """
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class _Number:
    """One value, kept here or asked for at every scrape."""

    __slots__ = ("_failing", "_function", "_value")

    def __init__(self) -> None:
        self._value = 0.0
        self._function: Callable[[], float] | None = None
        self._failing = False

    def set_function(self, function: Callable[[], float]) -> None:
        """Ask `function` for the value at every scrape; it must be quick and must not block."""
        self._function = function

    def get(self) -> float:
        """Return the value as it is now."""
        return self._value if self._function is None else float(self._function())

    def samples(self, name: str, labels: str) -> Iterator[str]:
        """Yield the line of this series; one whose function fails is left out, and logged once."""
        try:
            value = self.get()
        except Exception as exc:  # one bad callback must not cost us all other metrics
            if not self._failing:
                log.warning("cannot read metric %s%s: %r", name, _braced(labels), exc, exc_info=exc)
            self._failing = True
        else:
            self._failing = False
            yield f"{name}{_braced(labels)} {format_number(value)}"


class Counter(_Number):
    """A number that only goes up."""

    __slots__ = ()

    def inc(self, amount: float = 1.0) -> None:
        """Add to the counter."""
        if not amount >= 0:
            raise ValueError(f"cannot count {amount}: a counter never goes down, use a gauge")
        self._value += amount


class Gauge(_Number):
    """A number that goes up and down."""

    __slots__ = ()

    def set(self, value: float) -> None:
        """Replace the value."""
        self._value = float(value)

    def inc(self, amount: float = 1.0) -> None:
        """Add to the value."""
        self._value += amount

    def dec(self, amount: float = 1.0) -> None:
        """Take from the value."""
        self._value -= amount


class Histogram:
    """How often a value fell below each of a few bounds."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self._counts)

    def samples(self, name: str, labels: str) -> Iterator[str]:
        """Yield the lines of this series: cumulative buckets, then sum and count."""
        prefix = f"{labels}," if labels else ""
        total = 0
        for bound, count in zip((*self._bounds, math.inf), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{prefix}le="{format_number(bound)}"}} {total}'
        yield f"{name}_sum{_braced(labels)} {format_number(self._sum)}"
        yield f"{name}_count{_braced(labels)} {total}"


S = TypeVar("S", Counter, Gauge, Histogram)


class Family(Generic[S]):
    """All series of one metric name."""

    def __init__(
        self, name: str, kind: str, help_text: str, label_names: tuple[str, ...], new: Callable[[], S]
    ):
        self.name = name
        self.kind = kind
        self.label_names = label_names
        self._help = help_text
        self._new: Callable[[], S] = new
        self._series: dict[tuple[str, ...], S] = {}

    def labels(self, *values: str) -> S:
        """Return the series with these label values (none for a metric without labels)."""
        series = self._series.get(values)
        if series is None:
            if len(values) != len(self.label_names) or not all(isinstance(value, str) for value in values):
                raise ValueError(
                    f"cannot label {self.name} with {values!r}: it wants strings for {self.label_names}"
                )
            series = self._series[values] = self._new()
        return series

    def remove(self, *values: str) -> None:
        """Drop one series, if it exists; a handle to it that a caller has kept is no longer rendered."""
        self._series.pop(values, None)

    def remove_matching(self, **labels: str) -> None:
        """Drop every series that has these values for these labels."""
        wanted = [(self.label_names.index(name), value) for name, value in labels.items()]
        for values in [v for v in self._series if all(v[index] == value for index, value in wanted)]:
            del self._series[values]

    def __len__(self) -> int:
        return len(self._series)

    def lines(self) -> Iterator[str]:
        """Yield the family in text format; nothing when it has no series."""
        if not self._series:
            return
        yield f"# HELP {self.name} {escape_help(self._help)}"
        yield f"# TYPE {self.name} {self.kind}"
        for values, series in sorted(self._series.items(), key=lambda item: item[0]):
            pairs = zip(self.label_names, values, strict=True)
            yield from series.samples(self.name, ",".join(f'{k}="{escape_label(v)}"' for k, v in pairs))


class Registry:
    """The metrics of one process, or of one test."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[object, Family[Counter] | Family[Gauge] | Family[Histogram]]] = {}

    def counter(self, name: str, help_text: str, label_names: Sequence[str] = ()) -> Family[Counter]:
        """Return the counters of that name, new or existing; by convention it ends in `_total`."""
        return self._family(Family(name, "counter", help_text, tuple(label_names), Counter))

    def gauge(self, name: str, help_text: str, label_names: Sequence[str] = ()) -> Family[Gauge]:
        """Return the gauges of that name, new or existing."""
        return self._family(Family(name, "gauge", help_text, tuple(label_names), Gauge))

    def histogram(
        self,
        name: str,
        help_text: str,
        label_names: Sequence[str] = (),
        buckets: Sequence[float] = DEFAULT_BUCKETS,
    ) -> Family[Histogram]:
        """Return the histograms of that name, new or existing; `+Inf` is added to the buckets."""
        bounds = tuple(float(bound) for bound in buckets)
        if not bounds or not all(map(math.isfinite, bounds)) or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"cannot make histogram {name}: buckets {bounds} must be finite and ascending")
        if "le" in label_names:
            raise ValueError(f'cannot make histogram {name}: the label "le" belongs to its buckets')
        family = Family(name, "histogram", help_text, tuple(label_names), lambda: Histogram(bounds))
        return self._family(family, bounds)

    def render(self) -> str:
        """Return everything in text format, in an order that depends on names and labels only."""
        lines = [line for name in sorted(self._families) for line in self._families[name][1].lines()]
        return "\n".join([*lines, ""])

    def _family(self, family: Family[S], detail: object = None) -> Family[S]:
        """Keep a new family, or return the equal one that is there."""
        declaration = (family.kind, family.label_names, detail)
        known = self._families.get(family.name)
        if known is None:
            _check_names(family.name, family.label_names)
            self._families[family.name] = (declaration, family)
            return family
        if known[0] != declaration:
            raise ValueError(
                f"cannot declare {family.name} as {declaration}: it is already declared as {known[0]}; "
                "use one declaration or another name"
            )
        return known[1]  # type: ignore[return-value]  # the same kind, as just compared


def escape_label(value: str) -> str:
    """Escape a label value for the text between double quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def escape_help(text: str) -> str:
    """Escape a help text, which ends with its line."""
    return text.replace("\\", r"\\").replace("\n", r"\n")


def format_number(value: float) -> str:
    """Write a number as Prometheus and Go do: no `.0`, and `+Inf`, `-Inf`, `NaN` by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _check_names(name: str, label_names: tuple[str, ...]) -> None:
    if not _METRIC_NAME.match(name):
        raise ValueError(f"cannot name a metric {name!r}: use letters, digits, '_' and ':', no digit first")
    for label in label_names:
        if not _LABEL_NAME.match(label) or label_names.count(label) > 1:
            raise ValueError(
                f"cannot label {name} by {label!r}: use letters, digits and '_', no leading '__', each once"
            )
