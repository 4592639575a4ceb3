"""Runs inside a host, with nothing but Python: stops or disables units, and waits until they are back.

python3 - stop|disable COUNT UNITS      prints JSON: milliseconds of each, from the command on
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 30.0
WANTS = Path("/etc/systemd/system/multi-user.target.wants")


def main() -> None:
    """Do it again and again, unit after unit."""
    kind, count, units = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    took = []
    for turn in range(count):
        number = turn % units
        mark = Path(f"/run/drift/{number}") if kind == "stop" else WANTS / f"drift@{number}.service"
        if kind == "stop":
            mark.unlink()  # the unit makes it when it starts
        began = time.perf_counter()
        subprocess.run(
            ["systemctl", kind, f"drift@{number}.service"], check=True, capture_output=True, timeout=PATIENCE
        )
        while not mark.is_symlink() and not mark.exists():
            if time.perf_counter() - began > PATIENCE:
                raise SystemExit(f"drift@{number} was not back within {PATIENCE:g} s")
            time.sleep(0.0005)
        took.append((time.perf_counter() - began) * 1000)
    print(json.dumps(took))


main()
