"""The costs of this process, under the names that every Prometheus client uses.

Read from /proc at each scrape where there is one; CPU seconds come from the system call and
are there on every platform.
"""

from __future__ import annotations

import os
from pathlib import Path

from nodemanager.runtime import metrics

PROC = Path("/proc")


def register(registry: metrics.Registry, proc: Path = PROC) -> None:
    """Add the process metrics that this platform can answer."""
    cpu = registry.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")
    cpu.labels().set_function(cpu_seconds)
    if (proc / "self/statm").exists():
        memory = registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.")
        memory.labels().set_function(lambda: resident_bytes(proc))
    if (proc / "self/fd").is_dir():
        files = registry.gauge("process_open_fds", "Number of open file descriptors.")
        files.labels().set_function(lambda: open_files(proc))
    started = start_time(proc)
    if started is not None:
        start = registry.gauge(
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds."
        )
        start.labels().set(started)


def cpu_seconds() -> float:
    """Return the CPU time of this process."""
    spent = os.times()
    return spent.user + spent.system


def resident_bytes(proc: Path = PROC) -> float:
    """Return the resident set size; `statm` counts in pages."""
    pages = (proc / "self/statm").read_bytes().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def open_files(proc: Path = PROC) -> float:
    """Return the number of open file descriptors, without the one that looks."""
    with os.scandir(proc / "self/fd") as entries:
        return sum(1 for _ in entries) - 1


def start_time(proc: Path = PROC) -> float | None:
    """Return when this process started in unix seconds, or None where /proc does not say."""
    try:
        # The command name may hold spaces and parentheses: fields are counted after the last one.
        fields = (proc / "self/stat").read_bytes().rpartition(b")")[2].split()
        boot = next(
            int(line.split()[1])
            for line in (proc / "stat").read_bytes().splitlines()
            if line.startswith(b"btime ")
        )
        return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
