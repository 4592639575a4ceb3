"""The commands in README and docs, run word by word against a real kube-apiserver."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import apiserver
from support.doc_blocks import shell_blocks

pytestmark = pytest.mark.timeout(300)  # make may have to bring .venv up to date first
ROOT = Path(__file__).parents[2]
PLAN = re.compile(r"^(nodemanager plan)\b.*$", re.MULTILINE)
"""Exits with 2 where something would change, as on a machine that an example is meant for."""


@pytest.fixture
def shell(kube: apiserver.ApiServer, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of somebody with an empty cluster of their own, as the docs assume."""
    del kube  # for its skip and its worker
    with apiserver.running(tmp_path / "kube") as api:
        path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        yield {**os.environ, "KUBECONFIG": str(api.kubeconfig), "PATH": path}


def run(script: str, environ: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=ROOT, env=environ, text=True, timeout=120, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("document", ["README.md", "docs/getting-started.md"])
def test_the_commands_work_as_written(document: str, shell: dict[str, str]) -> None:
    found = [block.script for block in shell_blocks(document) if block.runs and not block.in_background]
    commands = [PLAN.sub(r"\1 || [ $? = 2 ]", script) for script in found]
    assert commands
    output = "".join(run(block, shell) for block in commands)
    assert "clock" in output
    run("make uninstall YES=1", shell)  # nobody can be asked here


def test_the_refusal_reads_as_the_docs_say(shell: dict[str, str]) -> None:
    text = (ROOT / "docs/getting-started.md").read_text()
    example = re.search(r"```text\n\$ (kubectl apply -f - <<EOF\n.*?EOF)\n(.*?)```", text, re.DOTALL)
    assert example is not None
    run("make install; kubectl create namespace nodemanager", shell)
    done = subprocess.run(
        ["bash", "-c", example[1]], env=shell, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.split() == example[2].split()


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").iterdir() if p.is_dir()))
def test_the_examples_are_accepted(example: str, shell: dict[str, str]) -> None:
    run("make install", shell)
    run(f"kubectl apply --dry-run=server -n default -f examples/{example}/", shell)
