"""The agent as a process without its API: started, drifting, restarted; and what it reports afterwards."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodemanager.client.calls import Selection
from nodemanager.kube.core import CONFIG_MAPS, EVENTS, SERVICE_ACCOUNTS
from support import server_process
from support.agent_process import Agent, Api, Starts, api_of, owned
from support.apiserver import free_port
from support.either import Place
from support.joined_host import join
from support.server_process import NAMESPACE, Server

pytestmark = pytest.mark.timeout(120)
SECRET_FILE = owned(
    "/etc/secret", template="{{ index .Node.Secrets `password` | base64.Decode }}\n", secretRefs=["db"]
)


async def drifts(api: Api) -> list[str]:
    """Return what was reported, in order."""
    found = (await api.client.list(EVENTS, Selection(api.namespace))).items
    found = [one for one in found if one.reason == "DriftRepaired"]
    return [one.message for one in sorted(found, key=lambda one: one.metadata.name)]


def spoil(agent: Agent, text: str) -> None:
    """Put another file in the place of one, at once, so that it is one drift and not several."""
    new = agent.at("/etc/new")
    new.write_text(f"{text}\n")
    new.rename(agent.at("/etc/motd"))
    agent.signal()


def told(drift_log: Path) -> int:
    """Return how many drifts a host has recorded."""
    return drift_log.read_bytes().count(b'{"drift":') if drift_log.exists() else 0


@asynccontextmanager
async def managed(folder: Path, *flags: str) -> AsyncIterator[tuple[Server, Agent]]:
    """An API and a host with one plain file and one that is made of a Secret."""
    (folder / "host" / "etc").mkdir(parents=True)
    with server_process.running(folder / "data") as server:
        kept = folder / "kubeconfig"
        kept.write_bytes(server.kubeconfig.read_bytes())
        agent = Agent(folder / "host", NAMESPACE, kept, flags=flags, probes=f"127.0.0.1:{free_port()}")
        try:
            async with api_of(kept, NAMESPACE) as api:
                await api.secret("db", password="geheim")
                await api.config_set("base", files=[owned("/etc/motd", content="one\n"), SECRET_FILE])
                agent.start()
                await api.ready("base")
            await agent.sees(lambda: agent.at("/var/lib/nodemanager/secrets").exists())
            yield server, agent
        finally:
            agent.end()


async def test_a_host_is_right_without_its_api_and_tells_once_it_is_there(tmp_path: Path) -> None:
    async with managed(tmp_path) as (server, agent):
        port = server.port
        server.stop(signal.SIGKILL)
        drift_log = agent.at("/var/lib/nodemanager/drift.log")
        for number in range(3):
            spoil(agent, f"by hand {number}")
            await agent.reads("/etc/motd", "one\n")
            # Not sooner: what is exchanged while a repair looks whether it has worked is a failure.
            await agent.sees(lambda: told(drift_log) == number + 1)  # noqa: B023
        agent.end()  # without a word, as a power cut does
        agent.log.unlink()
        agent.at("/etc/secret").unlink()
        began = time.monotonic()
        agent.start()
        await agent.reads("/etc/secret", "geheim\n")
        await agent.reads("/etc/motd", "one\n")
        sys.stdout.write(f"right {time.monotonic() - began:.2f} s after the start, without an API\n")
        code, said = await agent.get(agent.probes, "/readyz?verbose")
        assert (code, "alone since" in said) == (500, True), said
        await agent.logs("/etc/secret written")
        spoil(agent, "by hand again")
        await agent.reads("/etc/motd", "one\n")
        await agent.sees(lambda: drift_log.read_bytes().count(b"file:/etc/motd") >= 4)
        server.start(port)
        async with api_of(agent.kubeconfig, NAMESPACE) as api:
            # What was removed while no agent ran is a drift, too: it held when the last one looked.
            node = await api.until(
                lambda one: one.status.drift is not None and one.status.drift.sequence == 5
            )
            assert node.status.drift is not None
            assert [one.sequence for one in node.status.drift.recent] == [1, 2, 3, 4, 5]
            about = [one.resource.removeprefix("file:/etc/") for one in node.status.drift.recent]
            assert about == ["motd", "motd", "motd", "secret", "motd"]
            assert node.status.drift.repaired == 5
            assert [one.partition(": ")[0].removeprefix("file:/etc/") for one in await drifts(api)] == about
            await api.respec("base", files=[owned("/etc/motd", content="two\n")])
            await agent.reads("/etc/motd", "two\n")
        assert agent.stop() == 0
        assert not agent.at("/var/lib/nodemanager/secrets").exists()  # nothing needs them any more


async def test_a_host_knows_its_data_without_its_api(tmp_path: Path) -> None:
    async with managed(tmp_path) as (server, agent):
        layers = [{"configMapRef": {"name": "site"}}, {"secretRef": {"name": "db"}}]
        text = "{{ .Data.port }} {{ .Data.password }} {{ .Data.mine }}\n"
        async with api_of(agent.kubeconfig, NAMESPACE) as api:
            body = {"metadata": {"name": "site", "namespace": NAMESPACE}, "data": {"data.yaml": "port: 80\n"}}
            await api.client.create(CONFIG_MAPS, body, NAMESPACE)
            await api.patch_node({"spec": {"data": {"mine": "own"}}})
            await api.config_set("data", dataFrom=layers, files=[owned("/etc/data", template=text)])
            await agent.reads("/etc/data", "80 geheim own\n")
            await api.ready("base", "data")
        server.stop(signal.SIGKILL)
        agent.end()  # without a word, as a power cut does
        agent.at("/etc/data").unlink()
        agent.start()
        await agent.reads("/etc/data", "80 geheim own\n")


async def test_a_key_keeps_secrets_from_whoever_has_the_disk(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o400)
    async with managed(tmp_path, "--state.key-file", str(key)) as (server, agent):
        server.stop()
        agent.stop()
        state = agent.at("/var/lib/nodemanager")
        assert all(b"geheim" not in one.read_bytes() for one in state.rglob("*") if one.is_file())
        agent.at("/etc/secret").unlink()
        agent.start()
        await agent.reads("/etc/secret", "geheim\n")
        agent.end()
        agent.at("/etc/secret").unlink()
        agent.at("/etc/motd").unlink()
        key.chmod(0o600)
        key.write_bytes(b"x" * 32)
        agent.start()
        await agent.reads("/etc/motd", "one\n")
        await agent.logs("the key of --state.key-file does not open it")
        assert not agent.at("/etc/secret").exists()


async def test_a_host_that_is_let_go_is_told_and_loses_its_secrets(
    place: Place, api: Api, start: Starts, tmp_path: Path
) -> None:
    joined = await join(place, tmp_path, "web1", "--wide-secrets")
    await api.secret("db", password="geheim")
    await api.config_set("base", files=[owned("/etc/motd", content="one\n"), SECRET_FILE])
    agent = start(kubeconfig=joined.kubeconfig, flags=("--state.secret-grace", "1s"))
    await agent.reads("/etc/secret", "geheim\n")
    await agent.sees(lambda: agent.at("/var/lib/nodemanager/secrets").exists())
    spoil(agent, "by hand")
    await api.until(lambda one: one.status.drift is not None and one.status.drift.sequence == 1)
    assert len(await drifts(api)) == 1  # as the host itself, whom the policy lets tell of itself only
    await api.client.delete(SERVICE_ACCOUNTS, "nodemanager-web1", api.namespace)
    agent.end()  # the next process has to find out by itself
    agent.start()
    async with asyncio.timeout(60):  # a kube-apiserver believes what it knows of a token for ten seconds
        while "the API refuses this host" not in agent.log.read_text():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    await agent.logs("Secrets are not used any more")
    await agent.sees(lambda: not agent.at("/var/lib/nodemanager/secrets").exists())
    spoil(agent, "by hand")
    await agent.reads("/etc/motd", "one\n")
