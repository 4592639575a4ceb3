"""Drift: from a change behind the agent's back to its undoing, and what waiting for one costs."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import agents, apis, processes, work
from bench.report import Goal, Row, Section
from bench.settings import Settings
from nodemanager.api.configset import CONFIG_SETS
from nodemanager.cli import connect

NAME = "drift"
FILE = Goal(20.0, "ms")
IDLE = Goal(0.1, "%")
_TITLE = "1000 files and 1000 directories watched; from a change to its undoing"
_KINDS: Final = ("content", "mode", "delete", "symlink", "directory")
_PEERS: Final = (("CFEngine", 300.0), ("Puppet", 1800.0))
"""Seconds between two looks, by default; a drift lasts half of that on average. Salt, Ansible: on demand."""
_HOST = "bench"
_FOLDER = "srv/drift"


def run(settings: Settings) -> Section:
    """Drift one kind after the other, each resource once, then be quiet."""
    if os.geteuid() != 0:
        return Section(NAME, _TITLE, skipped="files that belong to root need root")
    count, quiet = settings.pick(1000, 20), settings.pick(60, 2)
    with (
        tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name,
        apis.ours(Path(name) / "api") as api,
    ):
        root = Path(name) / "root"
        work.make_root(root)
        apis.install_crds(api)
        _declare(api.kubeconfig, count)
        rows = []
        with agents.running(api.kubeconfig, root, _HOST, 1) as agent:
            time.sleep(settings.pick(5, 1))  # until it has looked at what it began to watch
            for kind in _KINDS:
                rows += _rows(kind, _probe(kind, count, root / _FOLDER))
            time.sleep(settings.pick(10, 2))  # until everything is reported
            rows += _idle(agent.pid, quiet)
    rows += [Row(f"{peer}, default interval", seconds * 1000, "ms") for peer, seconds in _PEERS]
    return Section(NAME, _TITLE, rows)


def _declare(kubeconfig: Path, count: int) -> None:
    directories = [f"/{_FOLDER}/directories/{number}" for number in range(count)]
    files: list[dict[str, Any]] = [
        *({"path": path, "ensure": "directory"} for path in directories),
        *({"path": f"{path}/file", "content": "managed\n"} for path in directories),
        *(
            {"path": f"/{_FOLDER}/files/{number}", "content": "managed\n", "mode": "0644"}
            for number in range(count)
        ),
    ]
    body = {"metadata": {"name": "drift"}, "spec": {"nodeSelector": {}, "files": files}}

    async def create() -> None:
        async with connect.connect(connect.Settings(kubeconfig=str(kubeconfig))) as client:
            await client.create(CONFIG_SETS, body, agents.NAMESPACE)

    asyncio.run(create())


def _probe(kind: str, count: int, folder: Path) -> list[float]:
    argv = [sys.executable, "-m", "bench.children.drift_probe", kind, str(count), str(folder)]
    done = subprocess.run(
        argv, cwd=processes.ROOT, env=processes.environment(), capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise processes.ChildFailed(f"cannot measure drifts of {kind}: {done.stderr.strip()}")
    return list(map(float, json.loads(done.stdout)))


def _rows(kind: str, took: Sequence[float]) -> list[Row]:
    worst = statistics.quantiles(took, n=100)[98]
    return [
        Row(f"{kind}, median of {len(took)}", statistics.median(took), "ms"),
        Row(f"{kind}, 99th percentile", worst, "ms", goal=FILE),
    ]


def _idle(pid: int, seconds: int) -> list[Row]:
    switches, cpu = _switches(pid), _cpu(pid)
    time.sleep(seconds)
    share = (_cpu(pid) - cpu) / seconds * 100
    return [
        Row(f"idle for {seconds} s: share of a core", share, "%", goal=IDLE),
        Row("idle: wake-ups per second", (_switches(pid) - switches) / seconds, "/s"),
    ]


def _switches(pid: int) -> int:
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        lines = status.read_text(encoding="ascii").splitlines()
        found += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))
    return found


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
