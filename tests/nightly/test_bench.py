"""All benchmarks, quickly: they run, and say what they measured; that of drift has a test of its own.

It takes five minutes: those of them that take seconds are in tests/unit/test_bench.py, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # bench/ is not installed

from bench import __main__ as command
from bench import drift, peers, processes

from support import scripts


@pytest.mark.long(200)
@pytest.mark.timeout(1800)
def test_a_quick_run_measures_everything_and_says_so(tmp_path: Path) -> None:
    results, called = tmp_path / "results.json", tmp_path / "called"
    (tmp_path / "bin").mkdir()
    for peer in peers.PEERS.values():  # whether they are installed makes no difference
        scripts.write(tmp_path / "bin" / peer.program, f'echo "$0" >> {called}; exit 1')
    names = [name for name in command.BENCHMARKS if name != drift.NAME]
    argv = [sys.executable, "-m", "bench", *names, "--quick", "--json", str(results)]
    alone = {key: value for key, value in os.environ.items() if key != "KUBEBUILDER_ASSETS"}
    alone["PATH"] = f"{tmp_path / 'bin'}:{alone['PATH']}"
    done = subprocess.run(
        argv, cwd=processes.ROOT, env=alone, capture_output=True, text=True, timeout=1790, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not called.exists()
    assert done.stdout.splitlines()[-1].startswith("goals ")
    sections = {section["name"]: section for section in json.loads(results.read_text())["sections"]}
    assert list(sections) == names
    for name in ("informer", "memory", "process", "queue"):
        rows = sections[name]["rows"]
        assert len(rows) >= 3
        assert all(row["value"] > 0 and row["ratio"] > 0 for row in rows)
    goals = {name for name, section in sections.items() if any(row["goal"] for row in section["rows"])}
    assert goals >= {"informer", "memory", "process", "embedded"}
    ours = sections["embedded"]
    assert all(row["ratio"] is None for row in ours["rows"])
    assert "KUBEBUILDER_ASSETS" in ours["skipped"]
    missed = next(row for row in ours["rows"] if "missed" in row["what"])
    assert missed["value"] == 0
    agent = sections["agent"]
    if os.geteuid() == 0:
        measured = {row["what"]: row["value"] for row in agent["rows"]}
        assert {"resident after the cold pass", "start to the end of the first no-op pass"} <= set(measured)
        # Of the few sets of a quick run, less may be left than two starts of one agent differ by.
        grown = measured.pop("growth with 50 ConfigSets of 26 KB for other hosts")
        assert -5 < grown < 5
        assert all(value > 0 for value in measured.values())
    else:
        assert "root" in agent["skipped"]
