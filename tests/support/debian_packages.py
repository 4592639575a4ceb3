"""Debian packages that tests need on the machine they run on."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

LOCK_SECONDS = 300


def ensure(**programs: str) -> None:
    """Make sure that each program is there, from its package: `ensure(debootstrap="debootstrap")`.

    Root on a Debian-like machine installs what is missing. Anybody else is told what to install: the
    test fails, it is not skipped, because a tier that nobody can run is a tier that nobody runs. A
    dash of a program's name is written as an underscore.
    """
    missing = {
        package for program, package in programs.items() if not shutil.which(program.replace("_", "-"))
    }
    if not missing:
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *sorted(missing)]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.fail(f"cannot run this test: {', '.join(sorted(missing))} is missing; run {' '.join(command)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for argv in (["apt-get", "update"], [*command, "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}"]):
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        pytest.fail(f"cannot install {', '.join(sorted(missing))}:\n{done.stderr[-2000:]}")
