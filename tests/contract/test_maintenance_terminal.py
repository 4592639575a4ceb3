"""Commands about maintenances as people see them: real processes, on a terminal, and interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest

from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.client.calls import Selection
from support import cli
from support.agent_process import Api
from support.stamps import unstamped
from support.told_maintenances import Told, counts

PATIENCE = 90.0


@pytest.fixture(name="told")
def _told(api: Api) -> Told:
    return Told(api)


class Person:
    """Somebody at a terminal of 80 columns, in which one command runs."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self.seen = ""

    async def sees(self, text: str) -> None:
        """Read along until a text was printed."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.seen:
                await self._read()

    def types(self, line: str) -> None:
        os.write(self._terminal, f"{line}\n".encode())

    async def end(self) -> int:
        """Read to the end; return the exit code."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(OSError):  # what a terminal says when nobody is behind it
                while True:
                    await self._read()
        return await asyncio.to_thread(self.process.wait, PATIENCE)

    async def _read(self) -> None:
        data = await asyncio.to_thread(os.read, self._terminal, 4096)
        if not data:
            raise OSError("it is over")
        self.seen += data.decode()


@contextlib.contextmanager
def at_terminal(told: Told, *args: str) -> Iterator[Person]:
    """Have somebody run a command, who leaves at the end of the block."""
    near, far = os.openpty()
    where = ("--kubeconfig", str(told.api.kubeconfig), "-n", told.api.namespace)
    environ = cli.environment(TERM="xterm", NO_COLOR="1", COLUMNS="80")
    process = subprocess.Popen([*cli.ARGV, *args, *where], stdin=far, stdout=far, stderr=far, env=environ)
    os.close(far)
    try:
        yield Person(process, near)
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(near)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
async def test_approve_asks_after_it_has_shown_the_plan(told: Told, answer: str, code: int) -> None:
    await told.host("web1")
    await told.maintenance(approval={"required": True})
    with at_terminal(told, "maintenance", "approve", "monday") as person:
        await person.sees("[y/N]: ")
        assert re.search(r"Hash: +[0-9a-f]{64}", person.seen)
        assert "web1" in person.seen
        person.types(answer)
        assert await person.end() == code
    found = (await told.api.client.list(MAINTENANCE_APPROVALS, Selection(told.api.namespace))).items
    assert len(found) == (answer == "y")
    assert ("was not approved: you said no" in person.seen) is (answer == "n")


async def test_a_list_has_bars(told: Told) -> None:
    await told.maintenance(status={"phase": "Running", "hosts": counts(4, succeeded=2, running=1)})
    with at_terminal(told, "maintenance", "list") as person:
        assert await person.end() == 0
    assert "[######>>>...] 2/4" in person.seen


async def test_run_is_drawn_in_place_and_ctrl_c_says_how_to_go_on(told: Told) -> None:
    await told.host("web1")
    await told.template("upgrade")
    with at_terminal(told, "run", "upgrade", "--all-hosts", "--now") as person:
        await person.sees("upgrade on 1 host")
        (made,) = (await told.api.client.list(NODE_MAINTENANCES, Selection(told.api.namespace))).items
        name = made.metadata.name
        await told.task("web1", made, "r", phase="Running", step="touch")
        await told.status(NODE_MAINTENANCES, name, {"phase": "Running", "hosts": counts(1, running=1)})
        await person.sees("web1  Running  step touch")
        assert re.search("\x1b\\[[0-9]+A\r\x1b\\[J", person.seen), "drawn over what was there"
        person.process.send_signal(signal.SIGINT)
        assert await person.end() == 130
    assert f"{name} goes on without you. To look: nodemanager maintenance history {name}" in unwrapped(person)
    assert f"to end it: nodemanager maintenance abort {name}" in unwrapped(person)
    assert unstamped(await told.get(name)) == {}, "nothing was ended"


def unwrapped(person: Person) -> str:
    return " ".join(person.seen.replace("python3 -m nodemanager", "nodemanager").split())
