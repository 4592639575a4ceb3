"""The agent is told to stop in the middle of something: what must be finished is, and counts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.agent.passes.converge import Converger
from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.apply import Tools
from nodemanager.host.base import ServiceKey
from nodemanager.host.files.tree import Tree
from nodemanager.host.observe import Observer
from nodemanager.host.process import environment
from nodemanager.host.process.runs import Runs
from nodemanager.host.results import Result
from nodemanager.host.state.journal import Journal, JournalError
from nodemanager.plan import merge
from nodemanager.plan.facts import ServiceFact
from support.fake_tools import MemoryLocks, MemoryPackages, MemoryServices
from support.root_tree import config_set, failure, literal_contents, needs_root, outcomes
from support.scripted_server import until

pytestmark = needs_root
UP = ServiceFact(known=True, running=True, enabled=True)


class SlowServices(MemoryServices):
    """A restart that stops the service, and then takes its time."""

    def __init__(self) -> None:
        super().__init__(web=UP)
        self.stopped, self.go_on = asyncio.Event(), asyncio.Event()

    async def restart(self, key: ServiceKey) -> None:
        self._do("stop", key, running=False)
        self.stopped.set()
        await self.go_on.wait()
        self._do("start", key, running=True)


class Host:
    """Files below a folder, and a service that restarts slowly."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.services = SlowServices()
        self.tree = Tree("/")
        self.restart()

    def restart(self) -> None:
        """Begin anew, as a new process would."""
        state, run, packages = f"{self.folder}/state", environment.host_runner(), MemoryPackages({})
        self.journal = Journal(self.tree, state)
        tools = Tools(
            packages, self.services, Runs(self.tree, self.journal, run, f"{state}/runs"), self.journal,
            MemoryLocks(),
        )  # fmt: skip
        self.converger = Converger(Observer(self.tree, packages, self.services, run), tools)

    async def converge(self, *sets: ConfigSet) -> list[Result]:
        desired = merge.merge(sets)
        return await self.converger.run(desired, literal_contents(desired))

    def declared(self, command: str = "", services: tuple[str, ...] = ()) -> ConfigSet:
        path = f"{self.folder}/f"
        executions = [{"command": "sh", "args": ["-c", command], "subscribe_files": [path]}]
        return config_set(
            "a",
            files=[{"path": path, "content": "c"}],
            services=[{"name": one, "ensure": "running", "subscribe_files": [path]} for one in services],
            executions=executions if command else [],
        )


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    found = Host(tmp_path)
    yield found
    found.tree.close()


async def test_a_service_that_was_stopped_for_its_restart_is_started_again(host: Host) -> None:
    converging = asyncio.create_task(host.converge(host.declared(services=("web",))))
    await asyncio.wait_for(host.services.stopped.wait(), 20)
    for _ in range(3):
        converging.cancel()
        await asyncio.sleep(0)
    assert not converging.done()
    host.services.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await converging
    assert host.services.calls == ["stop web", "start web"]
    assert host.journal.pending(), "better once too often than never"


async def test_a_program_goes_on_to_its_end_and_is_not_run_again(host: Host) -> None:
    began, go_on, ran = host.folder / "began", host.folder / "go-on", host.folder / "ran"
    os.mkfifo(go_on)
    declared = host.declared(f"touch {began}; cat {go_on}; echo ran >> {ran}")
    converging = asyncio.create_task(host.converge(declared))
    await until(began.exists, 90)
    converging.cancel()
    await asyncio.to_thread(go_on.write_text, "now")
    with pytest.raises(asyncio.CancelledError):
        await converging
    assert ran.read_text() == "ran\n"
    host.restart()
    assert set(outcomes(await host.converge(declared)).values()) == {"unchanged"}
    assert ran.read_text() == "ran\n"
    assert host.journal.pending() == {}


PROCESS = """
import asyncio, sys
from pathlib import Path
from test_stopping import Host
host = Host(Path(sys.argv[1]))
asyncio.run(host.converge(host.declared(sys.argv[2])))
"""


async def test_a_program_that_talks_outlives_an_agent_that_is_killed(host: Host) -> None:
    """With a pipe for its output it would end with ours, and be run again."""
    began, go_on, ran = host.folder / "began", host.folder / "go-on", host.folder / "ran"
    os.mkfifo(go_on)
    command = f"touch {began}; cat {go_on}; echo still here || exit 9; echo ran >> {ran}"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROCESS, str(host.folder), command, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        await until(began.exists, 90)
    finally:
        agent.kill()
        await agent.wait()
    host.restart()
    converging = asyncio.create_task(host.converge(host.declared(command)))
    await asyncio.to_thread(go_on.write_text, "now")
    await converging
    assert ran.read_text() == "ran\n"
    assert host.journal.pending() == {}
    assert list((host.folder / "state" / "runs").iterdir()) == []


async def test_a_program_that_talks_without_end_fills_nothing(host: Host) -> None:
    """It is not killed for it either; how it ended is told with the last of what it said."""
    results = await host.converge(host.declared("yes x | head -c 3000000; echo the end; exit 7"))
    said = next(one.message for one in results if one.id.kind == "exec")
    assert said.startswith("cannot run sh -c 'yes x |")
    assert "exit status 7: " in said
    assert said.endswith("the end")


async def test_a_run_whose_end_cannot_be_recorded_is_not_repeated(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = host.folder / "ran"
    declared = host.declared(f"echo ran >> {ran}")
    real = host.journal.settle

    def full(resources: object) -> None:
        if list(resources):  # type: ignore[call-overload]
            raise JournalError("cannot record what is owed: No space left on device")

    monkeypatch.setattr(host.journal, "settle", full)
    for _ in range(2):
        results = await host.converge(declared)
        resource = next(str(one.id) for one in results if one.id.kind == "exec")
        assert "No space left on device" in failure(results, resource)
    monkeypatch.setattr(host.journal, "settle", real)
    assert outcomes(await host.converge(declared))[resource] == "unchanged"
    assert ran.read_text() == "ran\n"
