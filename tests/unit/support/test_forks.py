"""A program that is forked off is what it would be in an interpreter of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import cli, fork_parent, forks

ARGV = [sys.executable, "-m", "support.looks"]

pytestmark = pytest.mark.skipif(not fork_parent.is_possible(), reason="here each one is a new interpreter")


def both(end: str, **options: Any) -> list[subprocess.CompletedProcess[str]]:
    """Run it as a fork, and as a new interpreter."""
    options = {"env": cli.environment(TZ="UTC-3"), "text": True, "capture_output": True, **options}
    forked = subprocess.run([*ARGV, end], check=False, timeout=60, **options)
    with forks.execs():
        return [forked, subprocess.run([*ARGV, end], check=False, timeout=60, **options)]


def seen(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)["seen"]


def test_it_sees_what_a_new_interpreter_sees(tmp_path: Path) -> None:
    forked, executed = both("7", cwd=tmp_path, input="told\n", start_new_session=True)
    assert seen(forked) == seen(executed)
    assert seen(forked)["parent"] == os.getpid()
    assert (forked.returncode, forked.stderr) == (executed.returncode, executed.stderr) == (7, "")


def test_so_it_does_with_descriptors_and_a_group(tmp_path: Path) -> None:
    with (tmp_path / "passed").open("w") as file:
        forked, executed = both("0", stdin=subprocess.DEVNULL, pass_fds=(file.fileno(),), process_group=0)
    assert seen(forked) == seen(executed)


def test_an_error_ends_it_in_the_same_way() -> None:
    forked, executed = both("raise", stdin=subprocess.DEVNULL)
    assert forked.returncode == executed.returncode == 1
    assert forked.stderr.splitlines()[-1] == executed.stderr.splitlines()[-1] == "OSError: on purpose"


def test_no_two_draw_the_same_lots() -> None:
    drawn = [json.loads(both("0", stdin=subprocess.DEVNULL)[0].stdout)["chance"] for _ in range(2)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_asyncio_waits_for_it_and_signals_end_it(number: signal.Signals) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *ARGV, "wait", env=cli.environment(), stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    assert process.stdout is not None
    assert await process.stdout.readline()
    process.send_signal(number)
    _, told = await process.communicate()
    assert process.returncode == -number
    assert (b"KeyboardInterrupt" in told) == (number == signal.SIGINT)


@pytest.mark.parametrize(
    ("how", "forked"),
    [
        ({}, True),
        ({"env": cli.environment(PYTHONUNBUFFERED="1")}, True),
        ({"env": cli.environment(PYTHONDEVMODE="1")}, False),
        ({"env": cli.environment(LC_ALL="C")}, False),
        ({"umask": 0o27}, False),
        ({"close_fds": False}, False),
        ({"preexec_fn": os.getpid}, False),
    ],
)
def test_whatever_asks_for_a_new_interpreter_gets_one(how: dict[str, Any], forked: bool) -> None:
    assert _is_forked(**how) == forked


def test_so_does_whoever_has_been_changed_since() -> None:
    before = os.umask(0o27)
    try:
        assert not _is_forked()
    finally:
        os.umask(before)


def test_the_first_program_of_all_may_be_a_special_one(monkeypatch: pytest.MonkeyPatch) -> None:
    forks.forget()
    with monkeypatch.context() as changed:
        changed.setenv("PYTHONPATH", str(Path(__file__).parents[2]) + os.pathsep)
        assert not _is_forked()
    assert _is_forked()


def test_an_agent_in_the_process_of_a_test_ignores_hangups(tmp_path: Path) -> None:
    """It does; and the next tests have the signal back."""
    assert cli.run("--kubeconfig", str(tmp_path / "none")).code == 1
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.execs
def test_so_does_a_test_that_says_so() -> None:
    assert not _is_forked()


def test_a_folder_that_is_not_there_is_told_as_ever(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        subprocess.run([*ARGV, "0"], cwd=tmp_path / "missing", check=False)


def _is_forked(**how: Any) -> bool:
    """Tell by the command line of the process, which a fork has from its parent."""
    given = {"env": cli.environment(), "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **how}
    with subprocess.Popen([*ARGV, "wait"], **given) as process:
        assert process.stdout is not None
        process.stdout.readline()
        line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.kill()
    return b"support.fork_parent" in line
