"""Who leaves a socket open, or has programs inherit something else, is told so, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import asyncio, gc, os, socket

class Cycle:
    def __init__(self):
        self.itself, self.held = self, socket.socketpair()

def test_before():
    gc.disable()

def test_culprit():
    Cycle()

async def test_listener():
    asyncio.get_running_loop().add_reader(os.eventfd(0), print)

def test_careless():
    os.umask(os.umask(0) ^ 0o7)

async def test_bystander():
    gc.enable()
    gc.collect()
"""


def test_the_culprit_fails_and_no_bystander(tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)
    argv = [
        sys.executable, "-m", "pytest", "-p", "support.leftovers", "-p", "no:randomly",
        "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-W", "error",
        "-rfE", "--rootdir", str(tmp_path), "-c", os.devnull, str(path),
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert "5 passed, 3 errors" in done.stdout
    assert "ERROR test_some.py::test_culprit" in done.stdout
    assert "ERROR test_some.py::test_listener" in done.stdout
    assert "ERROR test_some.py::test_careless" in done.stdout
    assert "programs inherit another Umask: " in done.stdout
    assert "open anon_inode:[eventfd] of <Handle print()>" in done.stdout
    assert "left behind, see where with PYTHONTRACEMALLOC=20:\nunclosed <socket.socket" in done.stdout
