"""Root at a terminal is asked once whether this machine is meant; nobody else ever is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodemanager.cli import first_touch
from support import cli
from support.root_tree import needs_root

QUESTION = "Shall what ConfigSets declare for web1 be done to this machine?"
OF_A_MACHINE = """\
import sys
from nodemanager.cli import first_touch
from nodemanager.host.files import tree
tree.is_running = lambda root: True  # or a test would have to manage this one
first_touch.tell_and_ask(sys.argv[1], "web1", agreed=False)
print("STARTED")
"""


def at_a_terminal(argv: list[str], answer: str = "") -> tuple[int, str]:
    """Run a program at a terminal where somebody types an answer; return its exit code and what it shows."""
    ours, theirs = os.openpty()
    os.write(ours, answer.encode())
    environ = cli.environment(TERM="dumb")
    process = subprocess.Popen(argv, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:  # nobody has it open any more
            break
        if not more:
            break
        shown += more
    os.close(ours)
    return process.wait(90), " ".join(shown.decode().split())


@needs_root
def test_who_agrees_is_asked_once(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", OF_A_MACHINE, str(tmp_path)]
    code, shown = at_a_terminal(argv, "y\n")
    assert (code, QUESTION in shown, shown.endswith("STARTED")) == (0, True, True)
    assert "The agent manages this machine, web1, as root. To try it on a folder instead: " in shown
    assert 'make run ARGS="--root DIR"' in shown
    code, shown = at_a_terminal(argv)
    assert (code, QUESTION in shown, shown.endswith("STARTED")) == (0, False, True)


@needs_root
def test_who_does_not_agree_starts_nothing_and_is_asked_again(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", OF_A_MACHINE, str(tmp_path)]
    for _ in range(2):
        code, shown = at_a_terminal(argv, "\n")
        assert (code, QUESTION in shown, "STARTED" in shown) == (1, True, False)
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_up_asks_before_it_starts_anything(tmp_path: Path) -> None:
    agreed = Path(first_touch.AGREED)
    if agreed.exists():
        pytest.skip("somebody has agreed to manage this machine")
    argv = [*cli.ARGV, "up", "--hostname", "web1", "--data-dir", str(tmp_path / "data")]
    code, shown = at_a_terminal(argv, "n\n")
    assert code == 1
    assert "error: nothing was started. To try it on a folder instead: " in shown
    assert not (tmp_path / "data").exists()


@needs_root
def test_scripts_are_not_asked(tmp_path: Path) -> None:
    """Without a terminal, and with --yes."""
    argv = [sys.executable, "-c", OF_A_MACHINE, str(tmp_path)]
    done = subprocess.run(
        argv, env=cli.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip
    assert (done.returncode, QUESTION in done.stdout, done.stderr) == (0, False, "")
    argv[2] = OF_A_MACHINE.replace("agreed=False", "agreed=True")
    code, shown = at_a_terminal(argv)
    assert (code, QUESTION in shown) == (0, False)


def test_a_folder_is_nobody_s_machine(tmp_path: Path) -> None:
    script = OF_A_MACHINE.replace("lambda root: True", "lambda root: False")
    code, shown = at_a_terminal([sys.executable, "-c", script, str(tmp_path)])
    assert code == 0
    assert shown == (
        f"The agent manages the folder {tmp_path} as if it were a host called web1, and changes nothing"
        " outside of it. STARTED"
    )
