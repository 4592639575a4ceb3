"""Debian packages that tests need on the machine they run on."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

LOCK_SECONDS = 300


def ensure(*packages: str, **programs: str) -> None:
    """Make sure that Debian packages are there, and programs, each from its package.

    `ensure("createrepo-c", debootstrap="debootstrap")`; a dash of a program's name is written as an
    underscore. Root on a Debian-like machine installs what is missing. Anybody else is told what
    to install: the test fails, it is not skipped, because a tier that nobody can run is a tier
    that nobody runs.
    """
    with (Path(tempfile.gettempdir()) / f"nodemanager-tests-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test workers start at the same time
        missing = {package for program, package in programs.items() if not _found(program)}
        missing |= {package for package in packages if not _installed(package)}
        if missing:
            _install(sorted(missing))


def _found(program: str) -> bool:
    return shutil.which(program.replace("_", "-")) is not None


def _installed(package: str) -> bool:
    if not shutil.which("dpkg-query"):
        return False
    found = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", package], capture_output=True, check=False)
    return found.stdout.endswith(b" installed")


def _install(packages: list[str]) -> None:
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.fail(
            f"cannot run this test: {', '.join(packages)} is missing; run {' '.join(command)} as root"
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for argv in (["apt-get", "update"], command):
        wait = ["-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}"]
        done = subprocess.run(
            [*argv, *wait], env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        if done.returncode != 0:
            pytest.fail(f"cannot install {', '.join(packages)}: {' '.join(argv)}: {done.stderr[-2000:]}")
