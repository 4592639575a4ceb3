"""The static programs of a release, as tests take them: what `make release` left in dist/.

Building one takes minutes, so nothing here does; a test that finds none is skipped, and says how to get it.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

import nodemanager

ROOT = Path(__file__).parents[2]
NATIVE = {"x86_64": "linux-amd64", "aarch64": "linux-arm64"}.get(platform.machine(), "")


OLD, NEW = (re.sub(r"[0-9](?=[^0-9]*$)", digit, nodemanager.__version__) for digit in "12")
"""Two versions for `renamed`."""


def find(target: str = NATIVE) -> Path:
    """Return the newest program for a target; the test is skipped where there is none."""
    found = list(ROOT.glob(f"dist/nodemanager-*-{target}"))
    if not target or not found:
        pytest.skip(f"no static program in dist/: make release TARGETS={target or 'linux-amd64'} builds it")
    return max(found, key=lambda path: path.stat().st_mtime)


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
