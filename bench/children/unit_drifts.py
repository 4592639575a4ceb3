"""Runs inside a host, with nothing but Python: stops or disables units, and waits until they are back.

python3 - stop|disable COUNT UNITS      prints JSON: milliseconds of each

A stop counts from the command on. To disable counts from when the link is gone: what systemctl does
before, it waits for systemd, and after, it has it read all units again, is no part of the change.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 30.0
WANTS = Path("/etc/systemd/system/multi-user.target.wants")


def main() -> None:
    """Do it again and again, unit after unit."""
    kind, count, units = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    measure = _stop if kind == "stop" else _disable
    print(json.dumps([measure(turn % units) for turn in range(count)]))


def _stop(number: int) -> float:
    mark = Path(f"/run/drift/{number}")  # the unit makes it when it starts
    mark.unlink()
    began = time.perf_counter()
    subprocess.run(
        ["systemctl", "stop", f"drift@{number}.service"], check=True, capture_output=True, timeout=PATIENCE
    )
    _until(mark.exists, number)
    return (time.perf_counter() - began) * 1000


def _disable(number: int) -> float:
    link = WANTS / f"drift@{number}.service"
    before, started = _identity(link), time.perf_counter()
    with subprocess.Popen(
        ["systemctl", "disable", f"drift@{number}.service"], stderr=subprocess.DEVNULL
    ) as process:
        _until(lambda: _identity(link) != before, number)
        began = started if _identity(link) else time.perf_counter()  # it was back before we saw it gone
        _until(link.is_symlink, number)
        took = (time.perf_counter() - began) * 1000
        if process.wait(PATIENCE):
            raise SystemExit(f"cannot disable drift@{number}: systemctl returned {process.returncode}")
    return took


def _identity(link: Path) -> tuple[int, int] | None:
    """Tell one link from the next of its name: ext4 gives the inode number to the next file at once."""
    try:
        found = link.lstat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def _until(holds: Callable[[], bool], number: int) -> None:
    began = time.perf_counter()
    while not holds():
        if time.perf_counter() - began > PATIENCE:
            raise SystemExit(f"drift@{number} was not gone, or not back, within {PATIENCE:g} s")
        time.sleep(0.0005)


main()
