"""Runs tests against a copy of src/, in a process that has loaded what all tests load."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pytest", "asyncio", "msgspec", "yaml", "aiohttp", "cryptography.x509"])
UNCHANGED_SECONDS: Final = 600.0
_CLONE_NEWNS: Final = 0x00020000


@dataclass(frozen=True, slots=True)
class Run:
    """How tests ended; no code = they did not."""

    code: int | None
    seconds: float
    output: str


@dataclass(frozen=True, slots=True)
class Tests:
    """Which to run, and for how long."""

    root: Path
    paths: tuple[str, ...]
    seed: int
    timeout: float = UNCHANGED_SECONDS

    def run(self, copy: Path) -> Run:
        """Run them with the source in a copy, up to the first that fails."""
        began, output = time.monotonic(), copy / "output"
        output.touch()
        process = _CONTEXT.Process(target=_run, args=(self, copy, output))
        process.start()
        process.join(self.timeout)
        code = process.exitcode
        if code is None and process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with whatever the tests have started
            process.join()
        return Run(code, time.monotonic() - began, output.read_text(errors="replace"))


def _run(tests: Tests, copy: Path, output: Path) -> None:
    """Become the process of the tests."""
    os.setsid()
    if os.geteuid() == 0:
        _have_own_mounts()
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    source, temporary = str(copy / "src"), copy / "tmp"
    temporary.mkdir(exist_ok=True)
    os.environ |= {
        "PYTHONPATH": source,
        "TMPDIR": str(temporary),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis"),
        "NODEMANAGER_TEST_EXAMPLES": os.environ.get("NODEMANAGER_TEST_EXAMPLES", "4"),
    }
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False  # or every run would compile all of src again
    sys.path.insert(0, source)
    os.chdir(tests.root)
    fixed = ["-p", "no:randomly", "-p", "no:cacheprovider", f"--hypothesis-seed={tests.seed}"]
    code = pytest.main(["-x", "-n", "0", *fixed, f"--basetemp={temporary}/pytest", *tests.paths])
    sys.stdout.flush()
    os._exit(int(code))  # at once: what a mistake left running must not keep us


def _have_own_mounts() -> None:
    """Have what tests mount go with this process: one that is killed unmounts nothing."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS):  # os.unshare comes with Python 3.12
        number = ctypes.get_errno()
        raise OSError(number, f"cannot have mounts of its own: {os.strerror(number)}")
    subprocess.run(["/bin/mount", "--make-rprivate", "/"], check=True, timeout=60)
