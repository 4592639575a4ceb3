"""A program of one ConfigSet that runs for long: what the API is told meanwhile, and how often."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.calls import Selection
from nodemanager.client.watch import WatchEvent
from nodemanager.kube import conditions
from support import cli
from support.agent_process import Agent, Api, Starts, owned
from support.either import Place
from support.folder_host import furnish
from support.root_tree import needs_root

pytestmark = needs_root
PROGRAM = "echo x >> /began; read -r line < /go-on"


def run(**more: Any) -> dict[str, Any]:
    return {"command": "/bin/sh", "args": ["-c", PROGRAM], "creates": "/done", **more}


def told(node: ManagedNode, type_: str) -> tuple[str, str]:
    found = conditions.get(node.status.conditions, type_)
    return (found.status, found.reason) if found else ("", "")


async def test_the_api_knows_what_a_host_is_at(api: Api, start: Starts) -> None:
    agent = start()
    await settled(api, agent)
    await api.config_set("long", executions=[run()])
    await agent.sees((agent.root / "began").exists)
    node = await api.until(lambda one: told(one, node_conditions.PROGRESSING)[0] == conditions.TRUE)
    assert told(node, conditions.READY) == ("False", node_conditions.APPLYING)
    progressing = conditions.get(node.status.conditions, node_conditions.PROGRESSING)
    assert progressing
    assert progressing.message.startswith("exec:long/sh#")
    assert progressing.observed_generation == node.metadata.generation
    waiting = {one.name: one.waiting for one in node.status.configsets}
    assert waiting["other"] == ""
    assert waiting["long"].endswith("is running")

    await api.respec("other", files=[owned("/etc/other", content="two\n")])
    await agent.reads("/etc/other", "two\n")
    (agent.root / "etc/obstacle").mkdir()
    await api.config_set("bad", files=[owned("/etc/obstacle", content="x")])
    node = await api.until(lambda one: told(one, conditions.READY)[1] == node_conditions.APPLY_FAILED)
    assert told(node, node_conditions.PROGRESSING)[0] == conditions.TRUE
    (agent.root / "etc/obstacle").rmdir()
    assert (agent.root / "began").read_text() == "x\n"

    (agent.root / "done").touch()
    await asyncio.to_thread((agent.root / "go-on").write_text, "now\n")
    node = await api.ready("bad", "long", "other")
    assert told(node, node_conditions.PROGRESSING) == ("False", node_conditions.APPLIED)
    assert (agent.root / "began").read_text() == "x\n"


@asynccontextmanager
async def written(api: Api) -> AsyncIterator[list[tuple[str, str]]]:
    """Collect what each write of the status says of what the host is at."""
    seen: list[tuple[str, str]] = []
    page = await api.client.list(MANAGED_NODES, Selection(api.namespace))
    watch = await api.client.watch(
        MANAGED_NODES, Selection(api.namespace), resource_version=page.resource_version
    )

    async def collect() -> None:
        async with watch:
            while True:
                changes = [one for one in await watch.batch() if isinstance(one, WatchEvent)]
                seen.extend(told(one.object, node_conditions.PROGRESSING) for one in changes)

    collecting = asyncio.create_task(collect())
    yield seen
    collecting.cancel()
    await asyncio.gather(collecting, return_exceptions=True)


async def settled(api: Api, agent: Agent) -> None:
    """Wait until the host has what it needs to run programs, and nothing to say."""
    await api.config_set("other", files=[owned("/etc/other", content="one\n")])
    await api.ready("other")
    furnish(agent.root)


async def test_a_short_execution_is_one_write(api: Api, start: Starts) -> None:
    await settled(api, start())
    async with written(api) as seen:
        await api.config_set("short", executions=[run(args=["-c", "echo x > /done"])])
        await api.ready("other", "short")
        await api.patch_node({"metadata": {"labels": {"seen": "all"}}})
        await api.until(lambda _: len(seen) > 1)
    assert seen == [("False", node_conditions.APPLIED)] * 2  # and the label, which we wrote


async def test_a_long_execution_is_one_write_more(api: Api, start: Starts) -> None:
    agent = start()
    await settled(api, agent)
    async with written(api) as seen:
        await api.config_set("long", executions=[run()])
        await api.until(lambda _: seen)
        (agent.root / "done").touch()
        await asyncio.to_thread((agent.root / "go-on").write_text, "now\n")
        await api.ready("long", "other")
        await api.patch_node({"metadata": {"labels": {"seen": "all"}}})
        await api.until(lambda _: len(seen) > 2)
    assert [status for status, _ in seen] == ["True", "False", "False"]


async def test_an_agent_that_stops_leaves_it_alone_and_does_not_wait(api: Api, start: Starts) -> None:
    agent = start()
    await settled(api, agent)
    await api.config_set("long", executions=[run(args=["-c", f"{PROGRAM}; echo x > /done"])])
    await agent.sees((agent.root / "began").exists)
    async with asyncio.timeout(15):  # less than what passes get to finish
        assert await asyncio.to_thread(agent.stop) == 0
    assert not (agent.root / "done").exists()
    await asyncio.to_thread((agent.root / "go-on").write_text, "now\n")
    await agent.sees((agent.root / "done").exists)
    node = await api.node()
    assert told(node, conditions.READY) != (conditions.TRUE, node_conditions.APPLIED) or "long" not in {
        one.name for one in node.status.configsets
    }, "nobody said that it was over"


@contextmanager
def operator(place: Place, log: Path) -> Iterator[None]:
    """`nodemanager operator`, which rolls up what hosts report."""
    argv = [
        *cli.ARGV, "operator", "--kubeconfig", str(place.kubeconfig), "-n", place.namespace,
        "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--no-leader-elect",
    ]  # fmt: skip
    with log.open("wb") as file:
        process = subprocess.Popen(argv, stdout=file, stderr=file, env=cli.environment())
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(50) == 0, log.read_text()


async def test_whoever_waits_for_a_set_or_a_host_is_not_fooled(
    api: Api, place: Place, start: Starts, tmp_path: Path
) -> None:
    def waits(what: str, seconds: int) -> bool:
        done = place.run("wait", "--for=condition=Ready", what, f"--timeout={seconds}s")
        return done.returncode == 0

    agent = start()
    with operator(place, tmp_path / "operator.log"):
        await settled(api, agent)
        assert await asyncio.to_thread(waits, "configset/other", 30)
        await api.config_set("long", files=[owned("/etc/long", content="one\n")])
        assert await asyncio.to_thread(waits, "configset/long", 30)
        await api.respec("long", executions=[run()])  # a new generation of a set that is Ready
        assert not await asyncio.to_thread(waits, "configset/long", 4)
        assert (agent.root / "began").exists()
        assert not await asyncio.to_thread(waits, "managednode/web1", 1)
        assert await asyncio.to_thread(waits, "configset/other", 1)
        (agent.root / "done").touch()
        await asyncio.to_thread((agent.root / "go-on").write_text, "now\n")
        assert await asyncio.to_thread(waits, "configset/long", 30)
        assert await asyncio.to_thread(waits, "managednode/web1", 1)
