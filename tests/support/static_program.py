"""The static programs of a release, as tests take them: what `make release` left in dist/, of these sources.

Building one takes minutes, so nothing here does; a test that finds none is skipped, and says how to get it.
With NODEMANAGER_TEST_RELEASE=1, where a release was just built, it fails.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from pathlib import Path
from typing import NoReturn

import pytest

import nodemanager

sys.path.append(str(Path(__file__).resolve().parents[2]))  # tools/ is not installed

from tools.release import revision

ROOT = revision.ROOT
NATIVE = {"x86_64": "linux-amd64", "aarch64": "linux-arm64"}.get(platform.machine(), "")
REQUIRED = "NODEMANAGER_TEST_RELEASE"
"""The variable by which it is a mistake that there is no program."""


OLD, NEW = (re.sub(r"[0-9](?=[^0-9]*$)", digit, nodemanager.__version__) for digit in "12")
"""Two versions for `renamed`."""


def find(target: str = NATIVE, root: Path = ROOT) -> Path:
    """Return the program for a target that is of these sources; the test is skipped where there is none."""
    builds = f"make release TARGETS={target or 'linux-amd64'} builds it"
    program = root / f"dist/nodemanager-{nodemanager.__version__}-{target}"
    if not target or not program.is_file():
        lacks(f"no static program in dist/: {builds}")
    if _sources_of(program, program.stat().st_mtime_ns) != _sources_here(root):
        lacks(f"dist/{program.name} was built of other sources than these: {builds} anew")
    return program


def lacks(why: str) -> NoReturn:
    """Skip a test, or fail where a release has to be tested."""
    if os.environ.get(REQUIRED, "") not in ("", "0"):
        pytest.fail(f"{why}; it is asked for by {REQUIRED}")
    pytest.skip(why)


@functools.cache
def _sources_of(program: Path, _changed: int) -> str:
    found = revision.of_program(program)
    return found.sources if found is not None else "older than this mark"


@functools.cache
def _sources_here(root: Path) -> str:
    return revision.digest(root)


def renamed(program: Path, version: str, folder: Path) -> Path:
    """Return a program that says it is another version; that has to be as long as the real one."""
    own = nodemanager.__version__
    assert len(version) == len(own), f"{version} is not as long as {own}"
    # A short constant of a module, as marshal writes it: its kind, its length, its characters.
    # Another package may have the same version, which does no harm.
    constant = re.compile(rb"([z\xfa]" + bytes([len(own)]) + b")" + re.escape(own.encode()))
    data, count = constant.subn(rb"\g<1>" + version.encode(), program.read_bytes())
    assert count, f"{program} does not say that it is {own}"
    made = folder / f"nodemanager-{version}"
    made.write_bytes(data)
    made.chmod(0o755)
    return made
