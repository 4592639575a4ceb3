"""`bin/manager` as somebody who downloaded it has it: one file, a plain Python, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANAGER = ROOT / "bin" / "manager"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment without our virtual environment, and with a home that is thrown away."""
    outside = [p for p in os.environ["PATH"].split(os.pathsep) if not p.startswith(str(ROOT))]
    return {"PATH": os.pathsep.join(outside), "HOME": str(tmp_path), "LANG": "C.UTF-8"}


def manager(environ: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    argv = [str(MANAGER), *args]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_it_runs_by_itself(environ: dict[str, str]) -> None:
    done = manager(environ, "version", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version"]


def test_it_has_the_kinds_of_this_tree(environ: dict[str, str]) -> None:
    printed = manager(environ, "crds").stdout
    for file in sorted((ROOT / "config" / "crd").glob("*.yaml")):
        _, _, generated = file.read_text().partition("\n")  # without the line that says so
        assert generated.strip() in printed


def test_without_a_cluster_it_says_what_to_do(environ: dict[str, str]) -> None:
    done = manager(environ, "get", "mn")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot ")
    assert "KUBECONFIG" in done.stderr
    assert done.stderr.count("\n") == 1


def test_completion_is_valid_bash(environ: dict[str, str]) -> None:
    script = manager(environ, "completion", "bash").stdout
    checked = subprocess.run(["bash", "-n"], input=script, text=True, timeout=10, check=False)
    assert checked.returncode == 0
