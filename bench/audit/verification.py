"""`nodemanager audit verify` of an export, beside the hashes that no check can do without."""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import processes
from bench.audit import logs
from bench.report import Goal, Row
from bench.settings import Settings
from nodemanager.cli import audit_log
from nodemanager.fleet.audit import evidence
from nodemanager.fleet.audit.verifying import Verifier

_MARKS = (evidence.SEGMENT, evidence.CHECKPOINT, evidence.KEY)
ROUNDS = 5
FLOOR_LINES = 100_000
"""Lines that are hashed for the floor: all are in memory, and a million of them would be too many."""


def rows(settings: Settings) -> list[Row]:
    """Check the whole log, streaming, and hash a part of it, in turns."""
    count = settings.pick(1_000_000, 5000)
    with tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name:
        path = Path(name) / "evidence.jsonl"
        logs.write(path, count)
        size = path.stat().st_size
        took, peak = _command(path)  # before there is much here: a child begins with what its parent has
        lines = _records(path)
        floors, checks = [], []
        for _ in range(settings.pick(ROUNDS, 1)):
            floors.append(_timed(lambda: _hash(lines), len(lines)))
            checks.append(_timed(lambda: _check(path, count), count))
    floor, check = statistics.median(floors), statistics.median(checks)
    ratio = statistics.median(ours / bare for ours, bare in zip(checks, floors, strict=True))
    return [
        Row("SHA-256 of leaves and nodes alone, lines in memory", floor, "us", 1.0, note=_rate(floor)),
        Row(
            f"verify of {count} records in a file, a record", check, "us", ratio, Goal(3.0, "x"), _rate(check)
        ),
        Row("the same, by itself", check, "us", goal=Goal(5.0, "us")),
        Row("nodemanager audit verify of that file, from start to end", took, "s"),
        Row("its memory, at most", peak, "MiB"),
        Row("bytes of a record in an export, heads and checkpoints included", size / count, "B"),
    ]


def _command(path: Path) -> tuple[float, float]:
    """Return how long the command takes, in seconds, and its memory, in MiB."""
    began = time.monotonic()
    argv = [sys.executable, "-m", "nodemanager", "audit", "verify", str(path)]
    with subprocess.Popen(
        argv, cwd=processes.ROOT, env=processes.environment(), stdout=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise processes.ChildFailed(f"cannot measure `audit verify`: it ended with {process.returncode}")
    return time.monotonic() - began, usage.ru_maxrss / 1024


def _rate(micros: float) -> str:
    return f"{1e6 / micros:,.0f} records/s"


def _records(path: Path) -> list[bytes]:
    found: list[bytes] = []
    for line in audit_log.of_path(path).lines:
        if not line.startswith(_MARKS):
            found.append(line)
        if len(found) == FLOOR_LINES:
            break
    return found


def _timed(work: Callable[[], None], count: int) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) / count * 1e6


def _hash(lines: list[bytes]) -> None:
    """Do what RFC 6962 asks for, and nothing else: a leaf for each record, and about as many nodes."""
    sha256 = hashlib.sha256
    level = [sha256(b"\x00" + line).digest() for line in lines]
    while len(level) > 1:
        level = [sha256(b"\x01" + one + other).digest() for one, other in zip(level[::2], level[1::2])]  # noqa: B905


def _check(path: Path, count: int) -> None:
    verifier = Verifier([logs.SIGNER.key])
    verifier.feed(audit_log.of_path(path).lines)
    report = verifier.finish()
    if not report.intact or report.signed != count:
        raise processes.ChildFailed(f"cannot measure the check of a log: {report.findings[:3]}")
