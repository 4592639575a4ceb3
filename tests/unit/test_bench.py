"""The benchmarks run, and judge what they measure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # bench/ is not installed

from bench import __main__ as command
from bench import embedded, nodes, processes, report, script
from bench.server import CHUNK_BUFFER, Chunks

from nodemanager.api.common.managednode import MANAGED_NODES

SMALL = ["informer", "memory", "process", "queue"]


def test_a_quick_run_measures_and_says_so(tmp_path: Path) -> None:
    """What takes seconds; tests/nightly/test_bench.py runs everything."""
    results = tmp_path / "results.json"
    argv = [sys.executable, "-m", "bench", "--quick", "--json", str(results), *SMALL]
    done = subprocess.run(argv, cwd=processes.ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("goals ")
    sections = {section["name"]: section for section in json.loads(results.read_text())["sections"]}
    assert list(sections) == SMALL
    for section in sections.values():
        rows = section["rows"]
        assert len(rows) >= 3
        assert all(row["value"] > 0 and row["ratio"] > 0 for row in rows)
    assert all(
        any(row["goal"] for row in sections[name]["rows"]) for name in ("informer", "memory", "process")
    )


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["memry"]) == 2
    assert "cannot run 'memry': there is informer, memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "ratio", "goal", "met"),
    [
        pytest.param(5.0, 2.0, report.Goal(3, "x"), True, id="ratio-below"),
        pytest.param(1.0, 3.1, report.Goal(3, "x"), False, id="ratio-above-although-value-below"),
        pytest.param(30.0, 9.0, report.Goal(30, "MiB"), True, id="value-exactly"),
        pytest.param(30.1, 0.5, report.Goal(30, "MiB"), False, id="value-above-although-ratio-below"),
        pytest.param(30.1, 0.5, None, None, id="no-goal"),
    ],
)
def test_a_goal_is_judged_by_its_unit(
    value: float, ratio: float, goal: report.Goal | None, met: bool | None
) -> None:
    row = report.Row("it", value, "MiB", ratio, goal)
    sections = [report.Section("one", "title", [row])]
    assert row.met is met
    assert report.all_met(sections) is (met is not False)
    assert ("MISSED" in report.verdict(sections)) is (met is False)
    assert ("MISSED" in report.table(sections)) is (met is False)


def test_a_goal_for_a_ratio_needs_one() -> None:
    with pytest.raises(ValueError, match="cannot judge 'it'"):
        report.Row("it", 1.0, "us", None, report.Goal(3, "x"))


@pytest.mark.parametrize(
    ("met", "flags", "status"),
    [
        pytest.param(True, ["--strict"], 0, id="met-strict"),
        pytest.param(False, ["--strict"], 1, id="missed-strict"),
        pytest.param(False, [], 0, id="missed"),
    ],
)
def test_a_missed_goal_fails_only_when_strict(
    met: bool, flags: list[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = report.Row("it", 1.0 if met else 9.0, "us", 1.0, report.Goal(3, "us"))
    monkeypatch.setattr(command, "BENCHMARKS", {"one": lambda _: report.Section("one", "title", [row])})
    assert command.main(flags) == status


def test_nodes_are_of_the_size_and_kind_that_is_promised() -> None:
    lines = list(nodes.changes(nodes=50, events=100))
    assert all(1900 <= len(line) <= 2100 for line in lines)
    assert len(set(lines)) == 100
    node = nodes.node(7)
    typed = msgspec.convert(node, MANAGED_NODES.type)
    assert typed.metadata.name == "edge-00007"
    assert msgspec.to_builtins(typed)["status"] == node["status"]  # no field that our type does not have


def test_a_script_survives_its_selector() -> None:
    wanted = script.Script(nodes=7, events=3, pace=1, gated=True, paged=True)
    assert script.parse(wanted.selector()) == wanted


@pytest.mark.parametrize(
    ("writes", "sizes"),
    [
        pytest.param([2706, 2706], [2706, 2706], id="large-writes-go-as-they-are"),
        pytest.param([2000, 2000, 2000], [2048, 2048, 1904], id="small-writes-are-gathered"),
        pytest.param([100, 5000], [2048, 3052], id="a-large-write-fills-what-is-held"),
        pytest.param([CHUNK_BUFFER], [CHUNK_BUFFER], id="exactly-full"),
    ],
)
def test_chunks_are_cut_as_go_cuts_them(writes: list[int], sizes: list[int]) -> None:
    chunks = Chunks()
    out = b"".join(chunks.write(b"x" * size) for size in writes) + chunks.flush()
    assert out == b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in sizes)


def test_a_ratio_to_the_other_server_is_the_median_of_the_rounds_that_have_both() -> None:
    row = embedded.row("get", [[4.0, 2.0], [3.0, 1.0], [9.0, 9.0], [5.0]], "ms", embedded.LATENCY)
    assert (row.value, row.ratio, row.met) == (4.5, 2.0, True)
    assert row.note == "theirs 2 ms"


def test_without_the_other_server_only_goals_that_are_no_ratio_are_judged() -> None:
    assert embedded.row("get", [[4.0]], "ms", embedded.LATENCY).met is None
    assert embedded.row("start", [[1600.0]], "ms", embedded.START).met is False


def test_a_created_and_a_reported_node_are_parts_of_the_whole_one() -> None:
    node = nodes.node(7, revision=3)
    created, reported = (msgspec.json.decode(text) for text in (nodes.wanted(7), nodes.reported(7, 3)))
    assert created["spec"] == node["spec"]
    assert created["metadata"]["labels"] == node["metadata"]["labels"]
    assert reported["status"] == node["status"]
