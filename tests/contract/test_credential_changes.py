"""Agents whose credential is not theirs, or is replaced while they run; nobody restarts one of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodemanager.kube import errors
from nodemanager.kube.core import SERVICE_ACCOUNTS
from support import cli
from support.agent_process import Agent, Api, Starts, owned
from support.either import Place
from support.joined_host import Joined, join, succeeds

pytestmark = pytest.mark.timeout(120)
REMEDY = (
    "this credential is of web1, and this host is called web9; run with --hostname web1, or bootstrap anew"
)


@pytest.fixture(name="web1")
async def _web1(place: Place, tmp_path: Path) -> Joined:
    return await join(place, tmp_path, "web1")


async def spoilt(agent: Agent, content: str) -> None:
    """Change what is managed by hand, and wait until it is put back."""
    agent.at("/etc/motd").write_text("by hand\n")
    agent.signal()
    await agent.reads("/etc/motd", content)


async def renamed(web1: Joined, api: Api, start: Starts) -> Agent:
    """Run the agent of web1, and start it again after the host was renamed to web9."""
    await api.config_set("motd", files=[owned("/etc/motd", content="one\n")])
    agent = start("web1", kubeconfig=web1.kubeconfig)
    await api.ready("motd")
    assert await asyncio.to_thread(agent.stop) == 0
    agent.hostname = "web9"
    agent.at("/run").mkdir()
    agent.start()
    await agent.logs(REMEDY)
    return agent


async def test_a_renamed_host_goes_on_from_memory_and_says_what_to_do(
    web1: Joined, api: Api, start: Starts
) -> None:
    agent = await renamed(web1, api, start)
    await spoilt(agent, "one\n")
    await api.respec("motd", files=[owned("/etc/motd", content="two\n")])
    await spoilt(agent, "one\n")
    told = await asyncio.to_thread(cli.run, "status", "--root", str(agent.root))
    assert f"\n{' ' * 14}cannot authenticate: {REMEDY}\n" in told.stdout, told
    assert "API:          not asked for want of a credential" in told.stdout
    with pytest.raises(errors.NotFound):
        await api.node("web9")
    assert await asyncio.to_thread(agent.stop) == 0
    agent.flags = ("--hostname", "web1")  # the last one counts: as the log says
    agent.start()
    await agent.reads("/etc/motd", "two\n")
    assert await asyncio.to_thread(agent.stop) == 0


async def test_a_renamed_host_that_bootstraps_anew_is_the_new_host_at_once(
    web1: Joined, api: Api, start: Starts, tmp_path: Path
) -> None:
    agent = await renamed(web1, api, start)
    web9 = await join(web1.place, tmp_path, "web9")
    web9.kubeconfig.rename(web1.kubeconfig)
    agent.signal()
    await api.until(lambda node: [one.name for one in node.status.configsets] == ["motd"], "web9")
    await api.respec("motd", files=[owned("/etc/motd", content="two\n")])
    await agent.reads("/etc/motd", "two\n")
    assert agent.process is not None
    assert agent.process.poll() is None
    assert await asyncio.to_thread(agent.stop) == 0


async def test_a_credential_of_several_hosts_is_used_whatever_it_is_named(
    web1: Joined, api: Api, start: Starts
) -> None:
    place = web1.place
    account = f"{place.namespace}:nodemanager-web1"
    place.kubectl("create", "rolebinding", "fleet", "--clusterrole=admin", f"--serviceaccount={account}")
    place.kubectl("create", "clusterrole", f"fleet-{place.namespace}", "--verb=*",
                  "--resource=managednodes.common.nodemanager,managednodes.common.nodemanager/status,"
                  "configsets.common.nodemanager,leases.coordination.k8s.io,events")  # fmt: skip
    place.kubectl("create", "rolebinding", "nodes", f"--clusterrole=fleet-{place.namespace}",
                  f"--serviceaccount={account}")  # fmt: skip
    await api.config_set("motd", files=[owned("/etc/motd", content="one\n")])
    agent = start("web9", kubeconfig=web1.kubeconfig)
    await api.until(lambda node: [one.name for one in node.status.configsets] == ["motd"], "web9")
    assert await asyncio.to_thread(agent.stop) == 0


@pytest.mark.long
@pytest.mark.parametrize("told", [True, False], ids=["SIGHUP", "by itself"])
async def test_a_revoked_host_that_joins_again_is_taken_back_by_its_running_agent(
    web1: Joined, api: Api, start: Starts, tmp_path: Path, told: bool
) -> None:
    place = web1.place
    await api.config_set("motd", files=[owned("/etc/motd", content="one\n")])
    agent = start("web1", kubeconfig=web1.kubeconfig)
    await api.ready("motd")
    rights = succeeds("rbac", "--hostname", "web1", "-n", place.namespace, "--revoke").stdout
    place.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=rights)
    with pytest.raises(errors.NotFound):
        await api.client.get(SERVICE_ACCOUNTS, "nodemanager-web1", place.namespace)
    await agent.logs("the API refuses this host")
    await spoilt(agent, "one\n")
    await join(place, tmp_path, "web1")
    if told:
        agent.signal()
    await agent.logs("took over a token that was put into")
    await agent.logs("the API is there again")
    await api.respec("motd", files=[owned("/etc/motd", content="two\n")])
    await agent.reads("/etc/motd", "two\n")
    assert await asyncio.to_thread(agent.stop) == 0
