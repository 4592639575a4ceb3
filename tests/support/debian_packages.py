"""Debian packages that tests need on the machine they run on."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

LOCK_SECONDS = 300
_LOCK = Path("/run/nodemanager-tests.lock")


def ensure(*names: str) -> None:
    """Make sure that these packages are installed: `ensure("mmdebstrap", "systemd-container")`.

    Root on a Debian-like machine installs what is missing. Anybody else is told what to install: the
    test fails, it is not skipped, because a tier that nobody can run is a tier that nobody runs.
    """
    if missing(names):
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            wanted = " ".join(missing(names))
            pytest.fail(f"cannot run this test: run apt-get install {wanted}, or what is like it, first")
        with _LOCK.open("w") as lock:  # tests that run at the same time wait for one another
            fcntl.flock(lock, fcntl.LOCK_EX)
            _install(missing(names))


def faketime() -> Path:
    """Return the library that gives a process another time; installed, if it was not."""
    ensure("libfaketime")
    return next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


def missing(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those packages that are not installed; all of them where there is no dpkg."""
    if not shutil.which("dpkg-query"):
        return names
    argv = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *names]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return tuple(name for name in names if f"{name} installed" not in done.stdout.splitlines())


def _install(names: tuple[str, ...]) -> None:
    if not names:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ("--yes", "--no-install-recommends", "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}")
    for argv in (["apt-get", "update"], ["apt-get", "install", *options, *names]):
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=LOCK_SECONDS + 600, check=False
        )
    if done.returncode != 0:
        pytest.fail(f"cannot install {', '.join(names)}:\n{done.stderr[-2000:]}")
