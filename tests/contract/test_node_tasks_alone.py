"""Tasks of a host whose API goes away: what was taken is finished and told later, nothing new is taken."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodemanager.api.maintenance.nodetask import COMPLETE
from nodemanager.kube import conditions
from nodemanager.plan.tasks import admission
from support import server_process
from support.agent_process import Agent, api_of
from support.apiserver import free_port
from support.folder_host import furnish
from support.node_tasks import Tasks, moment, phases, shell
from support.root_tree import needs_root
from support.server_process import NAMESPACE, Server

pytestmark = [needs_root, pytest.mark.timeout(180)]
STATE = "/var/lib/nodemanager"


@asynccontextmanager
async def managed(folder: Path) -> AsyncIterator[tuple[Server, Agent, Tasks]]:
    """An API of our own, and a host on which programs run."""
    (folder / "host" / "etc").mkdir(parents=True)
    furnish(folder / "host")
    with server_process.running(folder / "data") as server:
        kept = folder / "kubeconfig"
        kept.write_bytes(server.kubeconfig.read_bytes())
        agent = Agent(folder / "host", NAMESPACE, kept, metrics=f"127.0.0.1:{free_port()}")
        try:
            async with api_of(kept, NAMESPACE) as api:
                agent.start()
                await api.ready()
                yield server, agent, Tasks(api)
        finally:
            agent.end()


LONG = shell("long", "echo began >> /log; read -r line < /go-on; echo ended >> /log")


async def test_what_was_taken_is_finished_without_the_api_and_told_later(tmp_path: Path) -> None:
    async with managed(tmp_path) as (server, agent, tasks):
        await tasks.make("t", LONG, shell("next", "echo next >> /log"))
        await tasks.make("later", shell("a", "echo later >> /log"), notBefore=moment(seconds=4))
        await agent.sees(lambda: agent.at("/log").exists())
        port = server.port
        server.stop(signal.SIGKILL)
        agent.end()  # and the agent does not know that it was told anything
        await asyncio.to_thread(agent.at("/go-on").write_text, "now\n")
        agent.start()
        await agent.sees(lambda: agent.at("/log").read_text() == "began\nended\nnext\n")
        await agent.logs("task t: Succeeded")
        await asyncio.sleep(5)  # until the other one would begin
        assert agent.at("/log").read_text() == "began\nended\nnext\n", "it was taken without the API"
        server.start(port)
        task = await tasks.ended("t", "Succeeded")
        assert phases(task) == ["Succeeded", "Succeeded"]
        await tasks.ended("later", "Succeeded")
        assert agent.at("/log").read_text() == "began\nended\nnext\nlater\n"
        _, metrics = await agent.get(agent.metrics, "/metrics")
        assert 'nodemanager_tasks_total{node="web1",phase="Succeeded"} 2' in metrics


async def test_a_restored_disk_does_nothing_twice(tmp_path: Path) -> None:
    """What the API was told is more than the disk remembers: somebody has to look what was done."""
    async with managed(tmp_path) as (_, agent, tasks):
        await tasks.make("t", shell("a", "echo a >> /log"), LONG, shell("c", "echo c >> /log"))
        await tasks.until("t", lambda one: phases(one)[:1] == ["Succeeded"])
        agent.end()
        (record,) = agent.at(f"{STATE}/tasks").glob("*.json")
        kept = json.loads(record.read_text())
        kept["record"]["steps"] = [{}, {}, {}]  # as it was when it was claimed
        record.write_text(json.dumps(kept))
        agent.start()
        task = await tasks.ended("t", "Halted")
        complete = conditions.get(task.status.conditions, COMPLETE)
        assert complete is not None
        assert complete.reason == admission.FORGOTTEN
        assert agent.at("/log").read_text() == "a\nbegan\n"
        _, metrics = await agent.get(agent.metrics, "/metrics")
        assert 'nodemanager_tasks_refused_total{node="web1",reason="Forgotten"} 1' in metrics


async def test_a_state_that_is_lost_does_not_begin_anew(tmp_path: Path) -> None:
    async with managed(tmp_path) as (_, agent, tasks):
        await tasks.make("t", LONG)
        await tasks.until("t", lambda one: one.status.claim)
        await agent.sees(lambda: agent.at("/log").exists())
        agent.end()
        shutil.rmtree(agent.at(f"{STATE}/tasks"))
        agent.start()
        await agent.logs("task t is not done: ClaimedElsewhere")
        tasks.token = 10
        await tasks.make("other", shell("a", "echo other >> /log"))
        await tasks.ended("other", "Succeeded")
        assert agent.at("/log").read_text() == "began\nother\n"
