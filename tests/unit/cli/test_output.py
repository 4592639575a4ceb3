"""Columns, ages and colours."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api import kinds
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.cli.views import output
from nodemanager.kube.objects import Resource

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(-5, "<invalid>", id="future"),
        pytest.param(-1.5, "0s", id="clock-a-second-off"),
        pytest.param(0, "0s", id="zero"),
        pytest.param(119.9, "119s", id="seconds"),
        pytest.param(120, "2m", id="two-minutes"),
        pytest.param(5 * MINUTE + 30, "5m30s", id="minutes-and-seconds"),
        pytest.param(10 * MINUTE - 1, "9m59s", id="below-ten-minutes"),
        pytest.param(10 * MINUTE + 59, "10m", id="ten-minutes"),
        pytest.param(3 * HOUR - 1, "179m", id="below-three-hours"),
        pytest.param(3 * HOUR, "3h", id="three-hours"),
        pytest.param(7 * HOUR + 59 * MINUTE, "7h59m", id="hours-and-minutes"),
        pytest.param(8 * HOUR + 59 * MINUTE, "8h", id="eight-hours"),
        pytest.param(48 * HOUR - 1, "47h", id="below-two-days"),
        pytest.param(2 * DAY, "2d", id="two-days"),
        pytest.param(3 * DAY + 4 * HOUR, "3d4h", id="days-and-hours"),
        pytest.param(8 * DAY + 4 * HOUR, "8d", id="eight-days"),
        pytest.param(730 * DAY - 1, "729d", id="below-two-years"),
        pytest.param(730 * DAY, "2y", id="two-years"),
        pytest.param(800 * DAY, "2y70d", id="years-and-days"),
        pytest.param(8 * 365 * DAY + 100 * DAY, "8y", id="eight-years"),
    ],
)
def test_durations_are_those_of_kubectl(seconds: float, expected: str) -> None:
    assert output.human_duration(seconds) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        pytest.param("2026-01-02T03:03:05Z", "60s", id="utc"),
        pytest.param("2026-01-02T04:04:05+01:00", "0s", id="zone"),
        pytest.param("2026-01-02T03:03:05.123456Z", "59s", id="micro-time"),
        pytest.param("2026-01-02T03:03:05", "<unknown>", id="no-zone"),
        pytest.param("yesterday", "<unknown>", id="nonsense"),
        pytest.param("", "<unknown>", id="empty"),
        pytest.param(None, "<unknown>", id="none"),
    ],
)
def test_age(timestamp: str | None, expected: str) -> None:
    assert output.age(timestamp, NOW) == expected


def test_ago_names_moment_and_age() -> None:
    assert output.ago("2026-01-01T03:04:05Z", NOW) == "2026-01-01T03:04:05Z (24h ago)"
    assert output.ago(None, NOW) == "<none>"
    assert output.parse_time("2026-01-01T03:04:05Z") == NOW - timedelta(days=1)


def test_columns_are_aligned_as_kubectl_does() -> None:
    out = io.StringIO()
    output.TableWriter(["NAME", "READY", "AGE"], out=out).write(
        [["web1", "True", "5m"], ["a", "Unknown", "3d"]]
    )
    assert out.getvalue().splitlines() == [
        "NAME   READY     AGE",
        "web1   True      5m",
        "a      Unknown   3d",
    ]


def test_later_rows_keep_the_columns_and_repeat_no_heading() -> None:
    writer = output.TableWriter(["NAME", "AGE"])
    assert writer.lines([["a-long-name", "5m"]]) == ["NAME          AGE", "a-long-name   5m"]
    assert writer.lines([["b", "6m"]]) == ["b             6m"]
    assert writer.lines([["a-much-longer-name", "7m"], ["b", "8m"]]) == [
        "a-much-longer-name   7m",
        "b                    8m",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        pytest.param(Terminal(), {}, True, id="terminal"),
        pytest.param(Terminal(), {"NO_COLOR": ""}, True, id="empty-no-color"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="no-color"),
        pytest.param(Terminal(), {"TERM": "dumb"}, False, id="dumb"),
        pytest.param(io.StringIO(), {}, False, id="pipe"),
    ],
)
def test_colour_only_where_it_is_wanted(stream: io.StringIO, environ: dict[str, str], expected: bool) -> None:
    assert output.Style.of(stream, environ).colour is expected


def test_ready_is_green_or_red_and_nothing_moves() -> None:
    rows = [["a", "True", "True"], ["b", "False", "x"], ["c", "Unknown", "x"], ["d", "<none>", "x"]]
    coloured = output.TableWriter(["NAME", "READY", "DRIFT"], output.Style(colour=True)).lines(rows)
    plain = output.TableWriter(["NAME", "READY", "DRIFT"]).lines(rows)
    codes = {1: "\x1b[32m", 2: "\x1b[31m", 3: "\x1b[33m"}
    for number, (line, expected) in enumerate(zip(coloured, plain, strict=True)):
        code = codes.get(number, "")
        assert line.replace(code or "\0", "").replace("\x1b[0m", "") == expected
        assert line.count("\x1b") == (2 if code else 0)
        assert code in line


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        pytest.param("a\n b\tc\r\n", 0, "a b c", id="white-space"),
        pytest.param("\x1b[31mred\x07", 0, "?[31mred?", id="escape-sequences"),
        pytest.param("0123456789", 10, "0123456789", id="fits"),
        pytest.param("0123456789abc", 12, "012 ... 9abc", id="cut"),
        pytest.param("größe 木", 0, "größe 木", id="not-ascii"),
    ],
)
def test_foreign_text_becomes_one_harmless_line(text: str, limit: int, expected: str) -> None:
    assert output.one_line(text, limit) == expected


def test_a_report_fits_the_terminal() -> None:
    report = output.Report()
    report.field("Upgrade", "never by itself " * 8)
    report.table("Conditions", ["TYPE", "STATUS", "MESSAGE"], [["Ready", "False", "cannot do it; " * 12]])
    long = "/etc/" + "x" * 60
    report.table("Files", ["PATH", "USES"], [[long, "secret a, secret b"], ["/b", ""]])
    assert (
        output.wrapped(report.text(), 0)
        == """\
Upgrade:        never by itself never by itself never by itself never by itself
                never by itself never by itself never by itself never by itself
Conditions:
  TYPE    STATUS   MESSAGE
  Ready   False    cannot do it; cannot do it; cannot do it; cannot do it;
                   cannot do it; cannot do it; cannot do it; cannot do it;
                   cannot do it; cannot do it; cannot do it; cannot do it;
Files:
  PATH                                                                USES
  /etc/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
     secret a, secret b
  /b                                                                  <none>"""
    )
    assert output.wrapped(report.text(), 500) == report.text()


def test_colours_take_no_room() -> None:
    line = output.Style(colour=True).paint("does not hold", "red") + "   " + "word " * 15
    assert output.wrapped(line, 80).splitlines() == [
        "\x1b[31mdoes not hold\x1b[0m   " + " ".join(["word"] * 13),
        " " * 16 + "word word",
    ]


def test_report() -> None:
    report = output.Report(label_width=8)
    report.field("Name", "web1")
    report.field("Labels", "a=b", "c=d")
    report.field("Events")
    report.table("Files", ["PATH", "MODE"], [["/a", ""], ["/b", "0644"], ["/c", ""]], limit=2)
    report.table("Units", ["NAME"], [])
    assert report.text().splitlines() == [
        "Name:   web1",
        "Labels: a=b",
        "        c=d",
        "Events: <none>",
        "Files:",
        "  PATH   MODE",
        "  /a     <none>",
        "  /b     0644",
        "  ... and 1 more (all of them: nodemanager get -o yaml)",
        "Units:  <none>",
    ]


@pytest.mark.parametrize("kind", [MANAGED_NODES, CONFIG_SETS], ids=["mn", "cs"])
def test_lists_of_hosts_and_sets_fit_80_columns(kind: Resource[Any]) -> None:
    """With a name of 16 letters, and all that can be said at once."""
    (entry,) = [one for one in kinds.KINDS if one.resource is kind]
    longest = {"OS": "debian", "Agent": "0.10.0", "Ready": "Unknown", "Drift": "False"}
    longest |= {"Held": "<none>"} if kind is MANAGED_NODES else {}
    titles = [column.name for column in entry.columns if not column.priority]
    row = ["web-berlin-01.lan"[:16], *(longest.get(title, "364d") for title in titles)]
    lines = output.TableWriter(["NAME", *map(str.upper, titles)]).lines([row])
    assert max(map(len, lines)) <= 80, lines
