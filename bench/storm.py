"""The agent when nothing happens, and when far too much does."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench import apis, processes
from bench.report import Goal, Row

if TYPE_CHECKING:
    from support.fleet import Host

IDLE, GROWTH, CORE = Goal(0.1, "% of a core"), Goal(10.0, "MiB"), Goal(1.05, "cores")
PATIENCE = 60.0
CALM_SECONDS = 15 * 60.0
"""Files that were fought over are put back slowly."""


def idle(host: Host, seconds: int) -> list[Row]:
    """Measure an agent to which nothing happens, once it has told of all that did."""
    pid = _pid(host)
    before = _spent(pid)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(2)
        now = _spent(pid)
        if now[1] - before[1] <= 6:
            break
        before = now
    before, began = _spent(pid), time.monotonic()
    time.sleep(seconds)
    cpu, wakes = (new - old for new, old in zip(_spent(pid), before, strict=True))
    took = time.monotonic() - began
    return [
        Row("idle agent, CPU", cpu / took * 100, "% of a core", goal=IDLE),
        Row("idle agent, wake-ups", wakes / took, "per second"),
    ]


def rage(host: Host, files: Sequence[Path], changes: int, right: Callable[[Path], bool]) -> list[Row]:
    """Change managed files as fast as it goes, with as much going on beside them."""
    pid = _pid(host)
    before, began = apis.resident(pid) / 1024, time.monotonic()
    cpu = _spent(pid)[0]
    peak = [before]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            peak[0] = max(peak[0], apis.resident(pid) / 1024)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for number in range(changes):
            with contextlib.suppress(OSError):
                files[number % len(files)].write_text("storm\n")
            churn = files[number % len(files)].parent / f".sibling{number % 50}"
            churn.write_text("x")
            if number % 3:
                churn.unlink()
        stormed = time.monotonic() - began
        used = (_spent(pid)[0] - cpu) / stormed
        deadline = time.monotonic() + CALM_SECONDS
        while wrong := [path for path in files if not right(path)]:
            if time.monotonic() > deadline:
                raise processes.ChildFailed(f"cannot measure: {len(wrong)} files stay wrong: {wrong[0]}")
            time.sleep(0.1)
        calm = time.monotonic() - began - stormed
    finally:
        over.set()
        watcher.join()
    return [
        Row(f"storm of {changes} changes, and {changes} beside them", stormed, "s"),
        Row("storm, CPU of the agent", used, "cores", goal=CORE),
        Row("storm, until all is right again", calm, "s"),
        Row("storm, growth of memory", peak[0] - before, "MiB", goal=GROWTH, note=f"from {before:.1f} MiB"),
    ]


def _pid(host: Host) -> int:
    """Return the agent's process as this machine sees it."""
    inside = host.shows("nodemanager", "MainPID")
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            ids = next(one for one in status.read_text().splitlines() if one.startswith("NSpid:")).split()
            mine = ids[-1] == inside and len(ids) > 2 and _is_agent(status.parent)
            if mine and host.machine.root.samefile(status.parent / "root"):
                return int(status.parent.name)
    raise processes.ChildFailed("cannot measure: there is no agent")


def _is_agent(process: Path) -> bool:
    return b"kubeconfig" in (process / "cmdline").read_bytes()


def _spent(pid: int) -> tuple[float, int]:
    """Return the seconds of CPU that a process has had, and how often it has woken up."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    cpu = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    wakes = 0
    for task in tasks:
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                wakes += int(line.split()[1])
    return cpu, wakes
