"""The benchmark of drift works, on a host of its own; numbers are for a machine that does nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.fleet import ROOT

KINDS = (
    "content of a file", "mode of a file", "file deleted", "link swapped", "directory replaced",
    "unit stopped, its stop included", "unit disabled",
)  # fmt: skip


def test_every_kind_of_drift_is_measured(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    environ = {key: value for key, value in os.environ.items() if key != "KUBEBUILDER_ASSETS"}
    done = subprocess.run(
        [sys.executable, "-m", "bench", "drift", "--quick", "--json", str(results)],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (section,) = json.loads(results.read_text())["sections"]
    measured = {row["what"]: row["value"] for row in section["rows"]}
    for kind in KINDS:
        assert 0 < measured[f"{kind}, p50"] <= measured[f"{kind}, p99"]
    assert measured["storm, growth of memory"] < 10
