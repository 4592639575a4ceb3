"""The door to subprocess: results, bounds, clean ends. All programs are real."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.process import runner
from support import scripts
from support.gates import Gate


def sh(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(50):
        while not condition():  # noqa: ASYNC110 - a foreign process sets no event
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie that nobody has reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


STOPPED = """
import asyncio, os, sys
from nodemanager.host.process import runner
async def main():
    running = asyncio.create_task(runner.run(["/bin/sh", "-c", sys.argv[1]], timeout=60, finish=True))
    while not os.path.exists(sys.argv[2]):
        await asyncio.sleep(0.01)
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        print("cancelled")
asyncio.run(main())
"""


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the listing itself is what is counted


@pytest.mark.parametrize(
    ("command", "returncode", "stdout", "stderr"),
    [
        pytest.param("exit 0", 0, b"", b"", id="silent"),
        pytest.param("echo out; echo err >&2", 0, b"out\n", b"err\n", id="both streams"),
        pytest.param("echo out; exit 3", 3, b"out\n", b"", id="status"),
        pytest.param("kill -KILL $$", -9, b"", b"", id="signal"),
        pytest.param("exec >&-; echo late >&2", 0, b"", b"late\n", id="closes stdout early"),
    ],
)
async def test_result(command: str, returncode: int, stdout: bytes, stderr: bytes) -> None:
    completed = await runner.run(sh(command), timeout=20)
    assert (completed.returncode, completed.stdout, completed.stderr) == (returncode, stdout, stderr)
    assert completed.argv == tuple(sh(command))


async def test_large_output_arrives_whole() -> None:
    code = "import sys; sys.stdout.write('x' * 300_000); sys.stderr.write('y' * 300_000)"
    completed = await runner.run([sys.executable, "-c", code], timeout=20)
    assert (completed.stdout, completed.stderr) == (b"x" * 300_000, b"y" * 300_000)


@pytest.mark.parametrize("size", [0, 1, 65_536, 900_000])
async def test_stdin_arrives_whole_and_ends(size: int) -> None:
    data = os.urandom(size)
    completed = await runner.run(["cat"], stdin=data, timeout=20)
    assert completed.stdout == data


async def test_child_may_ignore_its_stdin() -> None:
    completed = await runner.run(["true"], stdin=b"x" * 900_000, timeout=20)
    assert completed.returncode == 0


async def test_environment_and_folder_are_as_given(tmp_path: Path) -> None:
    completed = await runner.run(["/usr/bin/env"], env={"ONLY": "this"}, timeout=20)
    assert completed.stdout == b"ONLY=this\n"
    scripts.write(tmp_path / "here", "echo found")
    completed = await runner.run(["./here"], cwd=str(tmp_path), timeout=20)
    assert completed.stdout == b"found\n"


async def test_program_is_found_in_the_path_of_the_given_environment(tmp_path: Path) -> None:
    scripts.write(tmp_path / "only-here", "echo found")
    completed = await runner.run(["only-here"], env={"PATH": str(tmp_path)}, timeout=20)
    assert completed.stdout == b"found\n"


async def test_child_leads_a_session_and_inherits_no_descriptors() -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    try:
        code = "import os; print(os.getpid() == os.getsid(0), sorted(os.listdir('/proc/self/fd')))"
        completed = await runner.run([sys.executable, "-c", code], stdin=b"x", timeout=20)
    finally:
        os.close(read_end)
        os.close(write_end)
    # 3 is the listing itself.
    assert completed.stdout == b"True ['0', '1', '2', '3']\n"


async def test_many_runs_leak_no_descriptors() -> None:
    await runner.run(["true"], stdin=b"x", timeout=20)
    before = open_descriptors()
    await asyncio.gather(*(runner.run(["true"], stdin=b"x", timeout=20) for _ in range(5)))
    with pytest.raises(runner.CommandNotFound):
        await runner.run(["/proc/nonexistent"], stdin=b"x", timeout=20)
    assert open_descriptors() == before


async def test_grandchild_that_keeps_stdout_open_is_neither_waited_for_nor_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    completed = await runner.run(sh(f"sleep 300 & echo $! > {pid_file}; echo started"), timeout=20)
    pid = int(pid_file.read_text())
    try:
        assert completed.stdout == b"started\n"
        assert alive(pid)
    finally:
        os.kill(pid, 9)


async def too_slow(script: str, pids: Path) -> list[int]:
    """Run a script out of time, once it has written down which processes there are; return those."""
    for seconds in (0.5, 2.0, 8.0, 30.0):  # a busy machine may not even have started it
        said = rf"^cannot run .*: it did not finish within {seconds:g} s"
        with pytest.raises(runner.CommandTimedOut, match=said):
            await runner.run(sh(script), timeout=seconds)
        if written := _numbers(pids):
            return written
    raise AssertionError("it was never started")


def _numbers(path: Path) -> list[int]:
    text = path.read_text() if path.exists() else ""
    return [int(one) for one in text.split()] if text.endswith("\n") else []


async def test_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    [pid] = await too_slow(f"sleep 300 & echo $! > {pids}; wait", pids)
    await until(lambda: not alive(pid))
    assert issubclass(runner.CommandTimedOut, TimeoutError)


async def test_group_that_ignores_the_first_signal_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "TERM_GRACE", 0.1)
    pids = tmp_path / "pids"
    script = f"trap '' TERM; (trap '' TERM; sleep 300) & echo $! $$ > {pids}; while :; do sleep 1; done"
    for pid in await too_slow(script, pids):
        await until(lambda pid=pid: not alive(pid))  # type: ignore[misc]


async def test_cancellation_ends_the_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    task = asyncio.create_task(
        runner.run(
            sh(f"sleep 300 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait"), timeout=60
        )
    )
    await until(pid_file.exists)
    pid = int(pid_file.read_text())
    assert alive(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not alive(pid))


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_too_much_output_ends_the_command(stream: str) -> None:
    redirect = ">&2" if stream == "stderr" else ""
    with pytest.raises(runner.OutputTooLarge, match=f"more than 1000 bytes to {stream}"):
        await runner.run(sh(f"while :; do echo 0123456789 {redirect}; done"), timeout=20, max_output=1000)


async def test_flood_ends_the_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(runner.OutputTooLarge):
        await runner.run(sh(f"sleep 300 & echo $! > {pid_file}; yes"), timeout=20, max_output=1000)
    pid = int(pid_file.read_text())
    await until(lambda: not alive(pid))


async def test_no_descriptors_left_is_an_error_of_ours() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(runner.RunError, match="cannot run true: Too many open files"):
            await runner.run(["true"], timeout=20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_output_of_exactly_the_limit_is_fine() -> None:
    completed = await runner.run(sh("printf 0123456789"), timeout=20, max_output=10)
    assert completed.stdout == b"0123456789"
    with pytest.raises(runner.OutputTooLarge):
        await runner.run(sh("printf 0123456789"), timeout=20, max_output=9)


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        pytest.param(["no-such-program-x"], runner.CommandNotFound, "no-such-program-x", id="not in PATH"),
        pytest.param(["/no/such"], runner.CommandNotFound, "cannot run /no/such", id="no such file"),
        pytest.param(["/"], runner.RunError, "cannot run /: Permission denied", id="a folder"),
        pytest.param([], runner.RunError, "no program was named", id="empty"),
        pytest.param([""], runner.RunError, "no program was named", id="empty name"),
        pytest.param(["true", "a\0b"], runner.RunError, "malformed", id="NUL"),
        pytest.param(["true", "\ud800"], runner.RunError, "malformed", id="surrogate"),
    ],
)
async def test_what_cannot_start(argv: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        await runner.run(argv, timeout=20)


async def test_script_with_a_missing_interpreter(tmp_path: Path) -> None:
    script = scripts.write(tmp_path / "script", "", "/no/such/interpreter")
    with pytest.raises(runner.CommandNotFound, match="interpreter"):
        await runner.run([script], timeout=20)


async def test_missing_folder_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(runner.RunError, match="there is no directory") as caught:
        await runner.run(["true"], cwd=missing, timeout=20)
    assert not isinstance(caught.value, runner.CommandNotFound)


async def test_malformed_variable_is_an_error_of_ours() -> None:
    with pytest.raises(runner.RunError, match="malformed"):
        await runner.run(["true"], env={"A=B": "c"}, timeout=20)


async def test_check_passes_success_on() -> None:
    completed = await runner.run(["true"], timeout=20)
    assert completed.check() is completed


async def test_check_tells_status_and_the_end_of_stderr() -> None:
    completed = await runner.run(
        sh("echo only-stdin-secret >/dev/null; seq 1 9999 >&2; echo 'last line' >&2; exit 7"),
        env={"SECRET": "hunter2"},
        stdin=b"correct horse",
        timeout=20,
    )
    with pytest.raises(runner.CommandFailed) as caught:
        completed.check()
    error = caught.value
    assert (error.returncode, error.argv) == (7, completed.argv)
    assert str(error).startswith("cannot run /bin/sh -c")
    assert "exit status 7" in str(error)
    assert str(error).endswith("last line")
    assert len(str(error)) < 1500
    assert "hunter2" not in str(error)
    assert "correct horse" not in str(error)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param("echo why; exit 1", "exit status 1: why", id="stdout if stderr is silent"),
        pytest.param("exit 1", "exit status 1: it said nothing", id="silent"),
        pytest.param("kill -TERM $$", "killed by SIGTERM", id="signal"),
        pytest.param(r"printf '\033[31mred\377' >&2; exit 1", r"\?\[31mred", id="escape sequences"),
    ],
)
async def test_messages_of_failures(command: str, message: str) -> None:
    completed = await runner.run(sh(command), timeout=20)
    with pytest.raises(runner.CommandFailed, match=message):
        completed.check()


async def test_long_commands_are_cut_in_messages() -> None:
    with pytest.raises(runner.CommandNotFound) as caught:
        await runner.run(["/no/such", "x" * 10_000], timeout=20)
    assert len(str(caught.value)) < 400


async def test_a_child_that_no_signal_reaches_does_not_pass_its_sleep_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in uninterruptible sleep outlives SIGKILL; here no signal is sent at all."""
    monkeypatch.setattr(runner, "_signal_group", lambda *_: None)
    monkeypatch.setattr(runner, "TERM_GRACE", 0.1)
    started, start = list[asyncio.subprocess.Process](), runner._start

    async def noted(*args: Any) -> asyncio.subprocess.Process:
        started.append(await start(*args))
        return started[-1]

    monkeypatch.setattr(runner, "_start", noted)
    pid_file = tmp_path / "pid"
    with Gate(tmp_path) as gate:
        script = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; {gate.wait}"
        with pytest.raises(runner.CommandTimedOut, match="could not even be killed"):
            await runner.run(sh(script), timeout=0.1)
        await until(pid_file.exists)
        pid = int(pid_file.read_text())
        assert alive(pid)
        gate.open()
        await until(lambda: not alive(pid))  # reaped in the background when it ends by itself
        transport: Any = started[0]._transport  # type: ignore[attr-defined] # closed a moment after that
        await until(transport.is_closing)


async def test_finish_returns_what_a_program_wrote() -> None:
    completed = await runner.run(sh("cat; echo err >&2; exit 3"), stdin=b"in", timeout=20, finish=True)
    assert (completed.returncode, completed.stdout, completed.stderr) == (3, b"in", b"err\n")


async def test_finish_keeps_the_end_of_too_much_output() -> None:
    completed = await runner.run(sh("seq 1 9999"), timeout=20, max_output=10, finish=True)
    assert completed.stdout == b"9998\n9999\n"


async def test_finish_outlives_a_timeout(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with Gate(tmp_path) as gate:
        with pytest.raises(runner.CommandTimedOut, match="left to finish"):
            await runner.run(sh(f"{gate.wait}; touch {done}"), timeout=0.2, finish=True)
        gate.open()
        await until(done.exists)


async def test_finish_outlives_a_cancelled_caller(tmp_path: Path) -> None:
    begun, done = tmp_path / "begun", tmp_path / "done"
    with Gate(tmp_path) as gate:
        script = f"touch {begun}; {gate.wait}; seq 1 99999; echo late >&2; touch {done}"
        task = asyncio.create_task(runner.run(sh(script), timeout=60, finish=True))
        await until(begun.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open()
        await until(done.exists)


async def test_finish_outlives_the_process_that_asked(tmp_path: Path) -> None:
    """The whole interpreter ends, in the regular way: neither asyncio nor a broken pipe ends the program."""
    begun, done = tmp_path / "begun", tmp_path / "done"
    with Gate(tmp_path) as gate:
        script = f"echo here; touch {begun}; {gate.wait}; seq 1 99999; echo late >&2; touch {done}"
        asked = await runner.run(
            [sys.executable, "-c", STOPPED, script, str(begun)], env={**os.environ}, timeout=90
        )  # fmt: skip
        assert asked.stdout == b"cancelled\n", asked.stderr
        gate.open()
        await until(done.exists)


async def test_finish_tells_what_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(runner.CommandNotFound, match="cannot run /no/such"):
        await runner.run(["/no/such"], timeout=20, finish=True)
    with pytest.raises(runner.RunError, match="there is no directory"):
        await runner.run(["true"], cwd=str(tmp_path / "missing"), timeout=20, finish=True)


async def test_finish_leaks_no_descriptors() -> None:
    await runner.run(["true"], timeout=20, finish=True)
    before = open_descriptors()
    await asyncio.gather(*(runner.run(["true"], stdin=b"x", timeout=20, finish=True) for _ in range(5)))
    assert open_descriptors() == before


async def test_finish_ends_after_its_time_if_it_is_bounded(tmp_path: Path) -> None:
    """With all that it started, also what does not care for the first signal."""
    done, child = tmp_path / "done", tmp_path / "child"
    script = f"(trap '' TERM; echo $BASHPID > {child}; sleep 60; touch {done}) & sleep 60; touch {done}"
    with pytest.raises(runner.CommandTimedOut, match=r"did not finish within 3 s and was killed"):
        await runner.run(["/bin/bash", "-c", script], timeout=3, finish=True, bounded=True)
    await until(lambda: child.exists() and not Path(f"/proc/{child.read_text().strip()}/cwd").exists())
    assert not done.exists()
