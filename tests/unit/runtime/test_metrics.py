"""What we render is what the reference parser of Prometheus reads back."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import parser

from nodemanager.runtime import metrics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read_back(registry: metrics.Registry) -> Samples:
    """Parse the rendered text with the reference parser."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(registry.render())
        for sample in family.samples
    }


def test_counters_and_gauges_are_read_back() -> None:
    registry = metrics.Registry()
    total = registry.counter("jobs_total", "Jobs.", ("kind", "result"))
    total.labels("a", "ok").inc()
    total.labels("a", "ok").inc(2.5)
    total.labels("b", "error").inc(0)
    depth = registry.gauge("depth", "Depth.")
    depth.labels().set(7)
    depth.labels().dec(3)
    depth.labels().inc()
    assert read_back(registry) == {
        ("jobs_total", (("kind", "a"), ("result", "ok"))): 3.5,
        ("jobs_total", (("kind", "b"), ("result", "error"))): 0.0,
        ("depth", ()): 5.0,
    }


def test_types_and_help_are_declared() -> None:
    registry = metrics.Registry()
    registry.counter("a_total", "Counts \\ and\nbreaks.").labels().inc()
    registry.gauge("b", "Level.").labels()
    registry.histogram("c_seconds", "Time.", buckets=(1,)).labels()
    families = {
        f.name: (f.type, f.documentation) for f in parser.text_string_to_metric_families(registry.render())
    }
    assert families == {
        "a": ("counter", "Counts \\ and\nbreaks."),
        "b": ("gauge", "Level."),
        "c_seconds": ("histogram", "Time."),
    }


def test_the_text_is_exact_and_ordered() -> None:
    registry = metrics.Registry()
    seconds = registry.histogram("z_seconds", "Time.", ("name",), buckets=(0.1, 1))
    for value in (0.1, 0.5, 30):
        seconds.labels("q").observe(value)
    total = registry.counter("a_total", "All.", ("x",))
    total.labels("2").inc()
    total.labels("10").inc()
    registry.gauge("empty", "No series, no lines.", ("x",))
    assert registry.render() == (
        "# HELP a_total All.\n"
        "# TYPE a_total counter\n"
        'a_total{x="10"} 1\n'
        'a_total{x="2"} 1\n'
        "# HELP z_seconds Time.\n"
        "# TYPE z_seconds histogram\n"
        'z_seconds_bucket{name="q",le="0.1"} 1\n'
        'z_seconds_bucket{name="q",le="1"} 2\n'
        'z_seconds_bucket{name="q",le="+Inf"} 3\n'
        'z_seconds_sum{name="q"} 30.6\n'
        'z_seconds_count{name="q"} 3\n'
    )


def test_an_empty_registry_renders_nothing() -> None:
    assert metrics.Registry().render() == ""


def test_callbacks_are_asked_at_every_scrape() -> None:
    registry = metrics.Registry()
    values = [1.0]
    registry.gauge("now", "Now.").labels().set_function(lambda: values[0])
    assert read_back(registry) == {("now", ()): 1.0}
    values[0] = 2.0
    assert read_back(registry) == {("now", ()): 2.0}


def test_a_failing_callback_costs_only_its_series_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = metrics.Registry()
    level = registry.gauge("level", "Level.", ("of",))
    level.labels("good").set(1)
    level.labels("bad").set_function(lambda: 1 / 0)
    with caplog.at_level(logging.WARNING):
        assert read_back(registry) == {("level", (("of", "good"),)): 1.0}
        assert read_back(registry) == {("level", (("of", "good"),)): 1.0}
    assert [r.getMessage() for r in caplog.records] == [
        "cannot read metric level{of=\"bad\"}: ZeroDivisionError('division by zero')"
    ]


def test_removed_series_are_gone_and_start_again_at_zero() -> None:
    registry = metrics.Registry()
    applied = registry.gauge("applied", "Applied.", ("node", "set", "version"))
    for version in ("1", "2"):
        applied.labels("n", "web", version).set(5)
    applied.labels("n", "db", "1").set(5)
    applied.remove_matching(node="n", set="web")
    applied.remove("n", "never-there", "1")
    assert read_back(registry) == {("applied", (("node", "n"), ("set", "db"), ("version", "1"))): 5.0}
    applied.remove("n", "db", "1")
    assert len(applied) == 0
    assert applied.labels("n", "db", "1").get() == 0


def test_the_same_declaration_is_shared_and_another_is_refused() -> None:
    registry = metrics.Registry()
    first = registry.histogram("t_seconds", "Time.", ("a",), buckets=(1, 2))
    assert registry.histogram("t_seconds", "Time.", ("a",), buckets=(1, 2)) is first
    with pytest.raises(ValueError, match=r"cannot declare t_seconds.*already declared"):
        registry.histogram("t_seconds", "Time.", ("a",), buckets=(1, 3))
    with pytest.raises(ValueError, match="cannot declare t_seconds"):
        registry.gauge("t_seconds", "Time.", ("a",))


@pytest.mark.parametrize(
    "declare",
    [
        pytest.param(lambda r: r.gauge("9lives", "x"), id="digit-first"),
        pytest.param(lambda r: r.gauge("a-b", "x"), id="dash"),
        pytest.param(lambda r: r.gauge("a\n", "x"), id="newline"),
        pytest.param(lambda r: r.gauge("a", "x", ("__name",)), id="reserved-label"),
        pytest.param(lambda r: r.gauge("a", "x", ("b", "b")), id="label-twice"),
        pytest.param(lambda r: r.histogram("a", "x", ("le",)), id="le"),
        pytest.param(lambda r: r.histogram("a", "x", buckets=(2, 1)), id="buckets-descend"),
        pytest.param(lambda r: r.histogram("a", "x", buckets=(1, math.inf)), id="bucket-infinite"),
        pytest.param(lambda r: r.histogram("a", "x", buckets=()), id="no-buckets"),
        pytest.param(lambda r: r.gauge("a", "x", ("b",)).labels(), id="value-missing"),
        pytest.param(lambda r: r.gauge("a", "x").labels("b"), id="value-too-many"),
        pytest.param(lambda r: r.gauge("a", "x", ("b",)).labels(3), id="value-not-text"),
        pytest.param(lambda r: r.counter("a_total", "x").labels().inc(-1), id="counter-down"),
        pytest.param(lambda r: r.counter("a_total", "x").labels().inc(math.nan), id="counter-nan"),
    ],
)
def test_mistakes_are_refused(declare: Callable[[metrics.Registry], object]) -> None:
    registry = metrics.Registry()
    with pytest.raises(ValueError, match=r"^cannot "):
        declare(registry)
    assert read_back(registry) in ({}, {("a_total", ()): 0.0})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (3.0, "3"),
        (0.25, "0.25"),
        (1e-8, "1e-08"),
        (1e21, "1e+21"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert metrics.format_number(value) == text


def test_exponential_buckets_have_the_digits_of_go() -> None:
    bounds = metrics.exponential_buckets(10e-9, 10, 12)
    assert [metrics.format_number(bound) for bound in bounds[:5]] == [
        "1e-08", "1e-07", "1e-06", "9.999999999999999e-06", "9.999999999999999e-05",
    ]  # fmt: skip
    assert len(bounds) == 12


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_any_number_survives(values: list[float]) -> None:
    registry = metrics.Registry()
    family = registry.gauge("g", "G.", ("i",))
    for index, value in enumerate(values):
        family.labels(str(index)).set(value)
    assert read_back(registry) == {("g", (("i", str(i)),)): v for i, v in enumerate(values)}


TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.text('\\"\n{},= #', max_size=8)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, unique=True))
def test_any_label_value_survives(pairs: list[tuple[str, str]]) -> None:
    registry = metrics.Registry()
    family = registry.counter("c_total", "C.", ("a", "b"))
    for first, second in pairs:
        family.labels(first, second).inc()
    assert read_back(registry) == {("c_total", (("a", a), ("b", b))): 1.0 for a, b in pairs}


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), max_size=50))
def test_histograms_count_like_the_definition(values: list[float]) -> None:
    registry = metrics.Registry()
    bounds = (0.5, 1.0, 10.0, 50.0)
    series = registry.histogram("h", "H.", buckets=bounds).labels()
    for value in values:
        series.observe(value)
    samples = read_back(registry)
    for bound in (*bounds, math.inf):
        key = ("h_bucket", (("le", metrics.format_number(bound)),))
        assert samples[key] == sum(1 for value in values if value <= bound)
    assert samples["h_count", ()] == len(values) == series.count
    assert samples["h_sum", ()] == pytest.approx(sum(values))
