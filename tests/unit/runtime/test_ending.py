"""How a program ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import cli

LEAVE = """
import atexit, sys, threading, time
from nodemanager.runtime import ending

class Heavy:
    def __del__(self):
        print("taken apart")

heavy = [Heavy()]
heavy.append(heavy)

def run():
    atexit.register(lambda: print("registered"))
    threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
    sys.stdout.write("unflushed ")
    {end}

ending.leave(run)
"""


def left(end: str, **options: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", LEAVE.format(end=end)]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        argv, text=True, check=False, timeout=50, env=cli.environment(),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(3)", 3), ("sys.exit()", 0), ("pass", 0), ("sys.exit(True)", 1)]
)
def test_it_waits_for_threads_and_writes_all_but_takes_nothing_apart(end: str, code: int) -> None:
    done = left(end)
    assert (done.returncode, done.stdout, done.stderr) == (code, "unflushed thread\nregistered\n", "")


def test_a_text_as_exit_code_and_an_error_are_pythons_affair() -> None:
    done = left("sys.exit('no')")
    assert (done.returncode, done.stderr) == (1, "no\n")
    done = left("raise ValueError('ours')")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: ours\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_last_words_that_cannot_be_written_are_an_error() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        assert left("sys.exit(0)", stdout=full).returncode == 120
