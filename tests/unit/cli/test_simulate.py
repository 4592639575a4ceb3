"""`nodemanager simulate`: the same answer for the same seed, also for a thousand hosts, and a picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from support import cli

ACCEPTED = Path(__file__).resolve().parents[2] / "cases" / "manifests" / "accepted"
MONDAY = ACCEPTED / "maintenance-monday.yaml"


def simulate(*args: object) -> cli.Ran:
    return cli.run("simulate", "--start", "2026-11-15", *map(str, args))


def test_the_monday_example_takes_two_mondays_for_thirty_hosts() -> None:
    found = simulate("-f", MONDAY, "--hosts", 30, "--seed", 7)
    assert found.code == 0, found.stderr
    assert "hosts: 30 succeeded" in found.stdout
    assert "began Mon 2026-11-16 05:00Z, ended Mon 2026-11-23" in found.stdout
    assert "Most hosts unavailable at once: 1 of 30" in found.stdout
    assert "WindowClosed" in found.stdout
    assert "template package-upgrade is not in these files" in found.stderr


def test_the_same_seed_gives_the_same_answer_and_another_seed_another() -> None:
    args = ("-f", MONDAY, "--hosts", 12, "--failures", "20%", "--seed")
    assert simulate(*args, 7).stdout == simulate(*args, 7).stdout
    assert simulate(*args, 7).stdout != simulate(*args, 8).stdout


def test_a_thousand_hosts_keep_to_the_budget(tmp_path: Path) -> None:
    text = MONDAY.read_text(encoding="utf-8").replace(
        "{maxUnavailable: 1}", "{maxUnavailable: 10%}\n  stopAfter: 99"
    )
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    found = simulate("-f", tmp_path, "--hosts", 1000, "--failures", "2%", "--seed", 7)
    assert found.code == 0, found.stderr
    peak = re.search(r"at once: (\d+) of 1000", found.stdout)
    assert peak is not None
    assert int(peak[1]) <= 100
    assert "one line is 40 hosts" in found.stdout
    assert all(len(line) <= 110 for line in found.stdout.splitlines() if "|" in line)


def test_gates_that_would_ask_others_hold_and_that_is_said(tmp_path: Path) -> None:
    gates = '{before: [{http: {url: "http://192.0.2.1/"}}]}'
    text = MONDAY.read_text(encoding="utf-8").replace("  budget:", f"  health: {gates}\n  budget:")
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    found = simulate("-f", tmp_path, "--hosts", 3)
    assert "has gates that ask others: simulated as if all of them held" in found.stderr
    assert "hosts: 3 succeeded" in found.stdout


def test_a_node_selector_takes_every_host_for_a_node_with_its_labels(tmp_path: Path) -> None:
    text = MONDAY.read_text(encoding="utf-8").replace("{selector: {", "{nodeSelector: {")
    assert "nodeSelector" in text
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    found = simulate("-f", tmp_path, "--hosts", 3, "--seed", 7)
    assert (found.code, "hosts: 3 succeeded" in found.stdout) == (0, True), found


def test_a_failure_stops_the_run_and_the_report_says_so() -> None:
    found = simulate("-f", MONDAY, "--hosts", 10, "--failures", "100%")
    assert "Stopped: too many hosts failed" in found.stdout


def test_the_picture_has_a_bar_for_every_visit(tmp_path: Path) -> None:
    picture = tmp_path / "x.svg"
    assert simulate("-f", MONDAY, "--hosts", 5, "--svg", picture).code == 0
    tree = ET.fromstring(picture.read_text(encoding="utf-8"))
    bars = [one for one in tree.iter("{http://www.w3.org/2000/svg}title") if "Done for" in (one.text or "")]
    assert len(bars) == 5


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-f", ACCEPTED / "series.yaml", "--hosts", 3], "there is no NodeMaintenance"),
        (["-f", MONDAY], "give --hosts"),
        (["-f", ACCEPTED / "maintenance-all.yaml", "--hosts", 3], "its window (office-hours-are-sacred)"),
        (["-f", MONDAY, "--hosts", 3, "--failures", "many"], "is no percentage"),
        (["-f", MONDAY, "--hosts", 3, "--svg", "/proc/nowhere/x.svg"], "cannot write /proc/nowhere/x.svg"),
        (["-f", "/nowhere.yaml"], "there is no /nowhere.yaml"),
    ],
)
def test_what_cannot_be_simulated_is_said(args: list[object], said: str) -> None:
    found = simulate(*args)
    assert found.code != 0
    assert said in found.stderr
