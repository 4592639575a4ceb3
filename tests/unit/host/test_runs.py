"""Runs that outlive us: whose process is waited for and ended, and whose is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.api.common.declarations import Execution
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment, processes
from nodemanager.host.process.runs import SUPERVISOR, Runs
from nodemanager.host.state.journal import Journal
from nodemanager.plan.resources import ResourceId
from support.scripted_server import until

RESOURCE = ResourceId("exec", "a")
NOBODY = 65534


class Host:
    """Runs in a folder, and the processes that a test started beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "runs"
        self.tree = Tree("/")
        self.runs = Runs(
            self.tree, Journal(self.tree, str(folder)), environment.host_runner(), str(self.folder)
        )
        self.note = Path(self.runs._note(RESOURCE))
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, argv: list[str], *, executable: str | None = None, user: int | None = None) -> int:
        child = subprocess.Popen(
            argv, executable=executable, user=user, stdin=subprocess.PIPE, start_new_session=True
        )
        self.children.append(child)
        return child.pid

    def supervise(self, program: list[str]) -> int:
        """Start a program as an agent does that is killed right after that."""
        self.folder.mkdir()
        permit = self.runs._permit(RESOURCE)
        pid = self.start(["/bin/sh", "-c", SUPERVISOR, str(self.note), *program])
        self.let_go(permit)
        return pid

    def let_go(self, permit: str) -> None:
        """Have the shell that was started last go on with a permission."""
        stdin = self.children[-1].stdin
        assert stdin is not None
        stdin.write(f"{permit}\n".encode())
        stdin.close()

    def took(self, what: str) -> Path:
        """Return the file that says which process took the permission."""
        return self.note.with_name(f"{self.note.name}.{what}")

    def close(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
            if child.stdin:
                child.stdin.close()
        self.tree.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_a_process_of_somebody_else_with_our_arguments_is_not_ended(host: Host) -> None:
    host.folder.mkdir()
    words = ["/bin/sh", "-c", "input()", str(host.note), "sleep", "1000"]
    host.start(words, executable="/usr/bin/python3", user=NOBODY)
    assert await host.runs.recover(RESOURCE, 0.3) is None
    assert host.children[0].poll() is None


async def test_nor_is_one_of_our_own_that_only_names_the_run(host: Host) -> None:
    """An administrator who looks at the record of a run, say."""
    host.folder.mkdir()
    host.start([sys.executable, "-c", "input()", str(host.note)])
    assert await host.runs.recover(RESOURCE, 0.3) is None
    assert host.children[0].poll() is None


async def test_nor_one_that_has_the_number_of_a_run_that_is_gone(host: Host) -> None:
    host.folder.mkdir()
    pid = host.start(["sleep", "1000"])
    known = processes.find(pid)
    assert known is not None
    boot = processes.boot_id()
    for what in (f"{pid}.{known.started - 1}.{boot}", f"{pid}.{known.started}.another-boot"):
        record = host.took(what)
        record.touch()
        assert await host.runs.recover(RESOURCE, 0.3) is None
        record.unlink()
    assert host.children[0].poll() is None
    host.took(f"{pid}.{known.started}.{boot}").touch()  # the record is what it is found by
    assert await host.runs.recover(RESOURCE, 0.3) == 128 + signal.SIGKILL


@pytest.mark.parametrize("record", ["1..", "..", "x.y.z", "0.0.a", "-1.5.a", "1.5", "1.5.a.b"])
async def test_a_record_that_says_nothing_leads_nowhere(host: Host, record: str) -> None:
    host.folder.mkdir()
    host.took(record).touch()
    assert await host.runs.recover(RESOURCE, 5) is None


async def test_a_run_that_goes_on_is_waited_for_and_ended_with_all_it_started(host: Host) -> None:
    began = host.folder / "began"
    pid = host.supervise(["sh", "-c", f"sleep 1000 & echo $! > {began}.new; mv {began}.new {began}; wait"])
    await until(began.exists, 90)
    child = int(began.read_text())
    assert await host.runs.recover(RESOURCE, 0.3) == 128 + signal.SIGKILL
    assert await asyncio.to_thread(host.children[0].wait, 20) == -signal.SIGKILL
    await until(lambda: processes.find(child) is None, 20)
    assert processes.find(pid) is None


async def test_a_run_that_ends_while_we_wait_counts(host: Host) -> None:
    gate, began = host.folder / "gate", host.folder / "began"
    host.supervise(["sh", "-c", f"mkfifo {gate}; touch {began}; cat {gate}; exit 3"])
    await until(began.exists, 90)
    recovering = asyncio.create_task(host.runs.recover(RESOURCE, 20))
    await asyncio.to_thread(gate.write_text, "now")
    assert await recovering == 3


async def test_a_shell_that_had_not_begun_when_we_came_back_never_does(host: Host) -> None:
    ran = host.folder / "ran"
    host.folder.mkdir()
    permit = host.runs._permit(RESOURCE)
    host.start(["/bin/sh", "-c", SUPERVISOR, str(host.note), "touch", str(ran)])
    assert await host.runs.recover(RESOURCE, 5) is None
    host.let_go(permit)
    assert await asyncio.to_thread(host.children[0].wait, 20) == 125
    assert not ran.exists()


async def test_one_that_comes_late_neither_takes_the_next_permission_nor_leaves_anything(host: Host) -> None:
    ran, late = host.folder / "ran", host.folder / "late"
    host.folder.mkdir()
    permit = host.runs._permit(RESOURCE)
    host.start(["/bin/sh", "-c", SUPERVISOR, str(host.note), "touch", str(late)])
    assert await host.runs.recover(RESOURCE, 5) is None
    host.runs.clear(RESOURCE)
    again = host.runs._permit(RESOURCE)
    host.let_go(permit)
    assert await asyncio.to_thread(host.children[-1].wait, 20) == 125
    host.start(["/bin/sh", "-c", SUPERVISOR, str(host.note), "touch", str(ran)])
    host.let_go(again)
    assert await asyncio.to_thread(host.children[-1].wait, 20) == 0
    assert (ran.exists(), late.exists()) == (True, False)
    ran.unlink()
    host.runs.clear(RESOURCE)
    assert list(host.folder.iterdir()) == []


async def test_the_record_goes_with_the_run(host: Host) -> None:
    done = await host.runs.run(RESOURCE, Execution(command="sh", args=["-c", "echo said; exit 4"]))
    assert (done.returncode, done.stdout) == (4, b"said\n")
    assert await host.runs.recover(RESOURCE, 5) == 4
    host.runs.clear(RESOURCE)
    assert list(host.folder.iterdir()) == []
