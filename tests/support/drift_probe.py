"""Changes what an agent manages on this host, again and again, and prints how long each took to be undone.

    python3 drift_probe.py KIND COUNT FOLDER     one JSON list of milliseconds

It runs on the host itself, with whatever Python that has: nothing but the standard library is needed. The
clock starts when the change is done; of units, when systemctl says so, which is after systemd has told us.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TIMEOUT = 60.0
NAP = 0.0002
MANAGED = "managed\n"
MODE = 0o644
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
WANTS = Path("/etc/systemd/system/multi-user.target.wants")


def content(path: Path, number: int) -> Callable[[], bool]:
    """Write something else."""
    path.write_text(f"foreign {number}\n", encoding="ascii")
    return lambda: _text(path) == MANAGED


def mode(path: Path, _number: int) -> Callable[[], bool]:
    """Give it another mode."""
    path.chmod(0o666)
    return lambda: path.stat().st_mode & 0o777 == MODE


def delete(path: Path, _number: int) -> Callable[[], bool]:
    """Remove it."""
    path.unlink()
    return lambda: _text(path) == MANAGED


def symlink(path: Path, _number: int) -> Callable[[], bool]:
    """Put a link in its place."""
    swap = path.with_name("swap")
    swap.symlink_to("/etc/hostname")
    swap.rename(path)
    return lambda: not path.is_symlink() and _text(path) == MANAGED


def directory(path: Path, number: int) -> Callable[[], bool]:
    """Move it away with the file in it, and put an empty one in its place."""
    path.rename(path.parent.parent / f"moved-{path.name}-{number}")
    with contextlib.suppress(FileExistsError):  # it is back already
        path.mkdir()
    return lambda: _text(path / "file") == MANAGED


def stop(unit: Path, _number: int) -> Callable[[], bool]:
    """Stop a unit."""
    folder = _cgroup(unit.name)
    before = _processes(folder)
    _systemctl("stop", unit.name)
    return lambda: bool(_processes(folder) - before)


def disable(unit: Path, _number: int) -> Callable[[], bool]:
    """Disable a unit."""
    _systemctl("disable", unit.name)
    return lambda: os.path.lexists(WANTS / unit.name)


def unlink(unit: Path, _number: int) -> Callable[[], bool]:
    """Remove the link that has a unit start at boot, without asking systemd."""
    (WANTS / unit.name).unlink()
    return lambda: os.path.lexists(WANTS / unit.name)


FILES = {"content": content, "mode": mode, "delete": delete, "symlink": symlink}
DIRECTORIES = {"directory": directory}
SERVICES = {"stop": stop, "disable": disable, "unlink": unlink}


def measure(kind: str, count: int, folder: Path) -> list[float]:
    """Return, for each drift, the milliseconds until it was undone."""
    harm = {**FILES, **DIRECTORIES, **SERVICES}[kind]
    if kind in SERVICES:
        targets = sorted(WANTS.glob("drift-*.service"))
    else:
        targets = sorted((folder / ("directories" if kind in DIRECTORIES else "files")).iterdir())
    if not targets:
        sys.exit(f"cannot make drifts of {kind}: nothing is managed in {folder}")
    return [_once(harm, targets[number % len(targets)], number) for number in range(count)]


def _once(harm: Callable[[Path, int], Callable[[], bool]], target: Path, number: int) -> float:
    undone = harm(target, number)
    began = time.perf_counter()
    while not _holds(undone):
        if time.perf_counter() - began > TIMEOUT:
            sys.exit(f"{harm.__name__} of {target} was not undone within {TIMEOUT:g} s")
        time.sleep(NAP)
    return (time.perf_counter() - began) * 1000


def _holds(undone: Callable[[], bool]) -> bool:
    try:
        return undone()
    except OSError:
        return False


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii")


def _cgroup(unit: str) -> Path:
    """Return where the processes of a unit that runs are listed."""
    argv = ["systemctl", "show", "--value", "--property=ControlGroup", unit]
    shown = subprocess.run(argv, check=True, timeout=TIMEOUT, capture_output=True, text=True).stdout.strip()
    found = (Path(root + shown) for root in CGROUPS)
    return next((one for one in found if shown and (one / "cgroup.procs").exists()), Path("/nowhere"))


def _processes(unit: Path) -> set[str]:
    try:
        return set((unit / "cgroup.procs").read_text(encoding="ascii").split())
    except OSError:
        return set()


def _systemctl(verb: str, unit: str) -> None:
    """Have it done; that the unit is back before systemctl returns is fine."""
    subprocess.run(["systemctl", "--quiet", verb, unit], check=True, timeout=TIMEOUT)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
