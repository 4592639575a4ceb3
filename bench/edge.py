"""What it costs a host to be of an edge site: an agent with `--edge`, and one without, at rest.

The flag counts only where an agent manages the machine that it runs on, so it does here, in a mount namespace
in which all that it writes is in memory; with nothing declared, it changes nothing.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Final

from bench import agents, apis, processes
from bench.report import Goal, Row, Section
from bench.settings import Settings

NAME = "edge"
GROWTH = Goal(4.0, "MiB")
IDLE = Goal(0.5, "% of a core")
_TITLE = (
    "an agent at rest on this machine, with nothing declared; the ratio is relative to one without --edge"
)
_HOST = "bench-edge"
_ALONE: Final = (
    "unshare", "--mount", "--propagation", "private", "sh", "-c",
    'mount -t tmpfs none /var/lib && mount -t tmpfs none /run && exec "$@"', "sh",
)  # fmt: skip
"""Runs a program that leaves the machine as it is."""


def run(settings: Settings) -> Section:
    """Measure both in turns, as the machine may be busier at one time than at another."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return Section(NAME, _TITLE, skipped="only root can have a mount namespace, by unshare(1)")
    sizes: dict[bool, list[float]] = {False: [], True: []}
    shares: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name, apis.ours(Path(name)) as api:
        apis.install_crds(api)
        for _ in range(settings.pick(2, 1)):
            for edge in (False, True):
                size, share = _measure(api.kubeconfig, settings.pick(30, 2), edge=edge)
                sizes[edge].append(size)
                shares[edge].append(share)
    plain, full = statistics.median(sizes[False]), statistics.median(sizes[True])
    idle, busy = statistics.median(shares[False]), statistics.median(shares[True])
    links, drbd = len(list(Path("/sys/class/net").iterdir())), Path("/proc/drbd").exists()
    rows = [
        Row("resident, without --edge", plain, "MiB"),
        Row("resident, with --edge", full, "MiB", full / plain),
        Row("growth by --edge", full - plain, "MiB", goal=GROWTH),
        Row("idle CPU, without --edge", idle, "% of a core"),
        Row("idle CPU, with --edge", busy, "% of a core", busy / idle if idle else None, IDLE,
            f"{links} links and {'' if drbd else 'no '}DRBD to look at"),
    ]  # fmt: skip
    return Section(NAME, _TITLE, rows)


def _measure(kubeconfig: Path, seconds: float, *, edge: bool) -> tuple[float, float]:
    """Return MiB at rest, and the share of a core that it takes then, in percent."""
    environment = {**processes.environment(), "NODEMANAGER_EDGE": "true" if edge else "false"}
    command = (*_ALONE, *agents.MODULE)
    with agents.running(kubeconfig, Path("/"), _HOST, 0, command, environment) as agent:
        size = agent.at_rest()
        return size, agent.idle(seconds) * 100
