"""`bin/manager` as somebody who downloaded it has it: one file, a plain Python, nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
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
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=150, check=False)


def test_it_runs_by_itself(environ: dict[str, str]) -> None:
    done = manager(environ, "version", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version"]


def test_it_calls_itself_as_it_was_called(environ: dict[str, str], tmp_path: Path) -> None:
    """So that what it advises can be typed as it stands."""
    done = manager(environ, "--help")
    assert f"Usage: {MANAGER} [OPTIONS] COMMAND" in done.stdout
    assert f"\n  {MANAGER} demo " in done.stdout
    assert f"  {MANAGER} plan -f ./manifests" in manager(environ, "plan", "--help").stdout
    assert manager(environ, "describe", "mn").stderr.endswith(f"to see all: {MANAGER} get\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nodemanager").symlink_to(MANAGER)
    named = {**environ, "PATH": f"{tmp_path}/bin:{environ['PATH']}"}
    argv = ["sh", "-c", "nodemanager describe mn"]
    done = subprocess.run(argv, env=named, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.endswith("to see all: nodemanager get\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to lose here")
def test_root_runs_nothing_that_others_put_into_a_home(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "nodemanager.py").write_text("raise SystemExit('planted')")
    name = re.search(rb"/([0-9a-f]{24})", MANAGER.read_bytes()[:2000])
    assert name is not None
    planted = tmp_path / ".cache/nodemanager" / name[1].decode()
    planted.mkdir(parents=True)
    (planted / "__main__.py").write_text("raise SystemExit('planted')")
    done = manager({**environ, "PYTHONPATH": str(tmp_path)}, "version")
    assert done.returncode == 0, done.stderr


def test_it_is_unpacked_once_and_versions_that_nobody_runs_go(
    environ: dict[str, str], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    for name in ("1" * 24, "2" * 24, f"{'3' * 24}.new-left", "of somebody else"):
        (cache / name).mkdir(parents=True)
        os.utime(cache / name, (0, 0))
    in_use = os.open(cache / ("1" * 24), os.O_RDONLY)
    fcntl.flock(in_use, fcntl.LOCK_SH)
    try:
        done = manager({**environ, "NODEMANAGER_CACHE": str(cache)}, "version")
        assert done.returncode == 0, done.stderr
        unpacked = {path.name for path in cache.iterdir()}
        (mine,) = unpacked - {"1" * 24, "of somebody else"}
        assert len(unpacked) == 3
        before = (cache / mine).stat()
        assert manager({**environ, "NODEMANAGER_CACHE": str(cache)}, "version").returncode == 0
        assert (cache / mine).stat().st_mtime_ns == before.st_mtime_ns
        assert before.st_mode & 0o777 == 0o755
    finally:
        os.close(in_use)


def test_starts_at_the_same_time_unpack_it_once(environ: dict[str, str], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with ThreadPoolExecutor(4) as pool:
        env = {**environ, "NODEMANAGER_CACHE": str(cache)}
        done = list(pool.map(lambda _: manager(env, "version"), range(4)))
    assert [(one.returncode, one.stderr) for one in done] == [(0, "")] * 4
    assert len(list(cache.iterdir())) == 1


def test_a_folder_that_it_cannot_be_unpacked_to_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = manager({**environ, "NODEMANAGER_CACHE": str(tmp_path / "file/cache")}, "version")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot unpack nodemanager to {tmp_path}/file/cache/")
    assert "NODEMANAGER_CACHE" in done.stderr
    assert done.stderr.count("\n") == 1


def test_it_knows_where_it_is(environ: dict[str, str]) -> None:
    printed = manager(environ, "install-service", "--init", "systemd", "--print").stdout
    assert f"ExecStart={MANAGER} --kubeconfig" in printed


def test_another_python_is_told_which_one_is_needed(environ: dict[str, str], tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "id"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    (tools / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tools / "python3").chmod(0o755)
    done = manager({**environ, "PATH": str(tools)}, "version")
    assert done.returncode == 1
    assert "needs Python 3." in done.stderr


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


def test_what_this_build_leaves_out_is_named(environ: dict[str, str]) -> None:
    done = manager(environ, "server", "--help")
    assert done.returncode == 1
    assert "run it where the sources are: make .venv/.dev && .venv/bin/nodemanager server" in done.stderr


def test_completion_is_valid_bash(environ: dict[str, str]) -> None:
    script = manager(environ, "completion", "bash").stdout
    checked = subprocess.run(["bash", "-n"], input=script, text=True, timeout=60, check=False)
    assert checked.returncode == 0
