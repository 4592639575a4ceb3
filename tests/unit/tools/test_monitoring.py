"""Alerts and the board of edge sites: of metrics that are there, and judged by promtool itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.edge.edgecluster import PHASES
from nodemanager.controllers import assembly
from nodemanager.controllers.edge_clusters import reconciling

ROOT = Path(__file__).resolve().parents[3]
CASES = Path(__file__).parents[2] / "cases" / "alerts" / "edge.yaml"
METRICS = {
    reconciling.PHASE_METRIC,
    reconciling.NODES_METRIC,
    reconciling.LOOKED_METRIC,
    assembly.LEADING_METRIC,
}


def monitoring() -> dict[str, str]:
    """Return what is in the tree, which `make check` compares with what is generated."""
    folder = ROOT / "config" / "monitoring"
    return {one.name: one.read_text() for one in folder.iterdir()}


def promtool(folder: Path, *args: str) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on PATH: on Debian install prometheus")
    done = subprocess.run(
        ["promtool", *args], cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A folder with the rules as Prometheus reads them, and the cases."""
    spec = yaml.safe_load(monitoring()["edge-alerts.yaml"])["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    shutil.copy(CASES, tmp_path / "cases.yaml")
    return tmp_path


def test_alerts_fire_when_they_should(folder: Path) -> None:
    assert "SUCCESS" in promtool(folder, "check", "rules", "--lint-fatal", "rules.yaml")
    assert "SUCCESS" in promtool(folder, "test", "rules", "cases.yaml")


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    rules = yaml.safe_load(monitoring()["edge-alerts.yaml"])["spec"]["groups"][0]["rules"]
    asked = [
        (case["alertname"], bool(case.get("exp_alerts")))
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    assert {name for name, fires in asked if fires} == {rule["alert"] for rule in rules}
    assert {name for name, fires in asked if not fires} == {rule["alert"] for rule in rules}


def queries() -> Iterator[str]:
    """Every expression of rules and board."""
    for rule in yaml.safe_load(monitoring()["edge-alerts.yaml"])["spec"]["groups"][0]["rules"]:
        yield rule["expr"]
    for panel in json.loads(monitoring()["edge-board.json"])["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_only_metrics_and_phases_that_there_are_are_asked_for() -> None:
    text = "\n".join(queries())
    assert set(re.findall(r"\b(?:nodemanager|leader)_\w+", text)) == METRICS
    assert set(re.findall(r'phase="(\w+)"', text)) == set(PHASES)


def test_queries_of_the_board_can_be_read(tmp_path: Path) -> None:
    rules = [{"record": "x:y", "expr": one.replace("$site", "s")} for one in queries()]
    groups = [{"name": str(number), "rules": [rule]} for number, rule in enumerate(rules)]
    (tmp_path / "board.yaml").write_text(yaml.safe_dump({"groups": groups}))
    promtool(tmp_path, "check", "rules", "--lint=none", "board.yaml")


def test_the_board_is_one_that_grafana_takes() -> None:
    board: dict[str, Any] = json.loads(monitoring()["edge-board.json"])
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    end = 0
    for panel in board["panels"]:
        assert panel["gridPos"]["y"] == end, "panels neither overlap nor leave a gap"
        end += panel["gridPos"]["h"]
    names = {one["name"] for one in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"]))) - {"__all"}
    assert used == names
