"""The agent as a process and the API that it talks to: embedded, and kube-apiserver.

A folder stands for the host. What the agent does to files is tested elsewhere; here it is about
what it asks, hears, writes and leaves alone.
"""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import msgspec

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.kube import conditions
from nodemanager.kube.core import CONFIG_MAPS, EVENTS, LEASES
from support import server_process
from support.agent_process import Agent, Api, Starts, api_of, owned
from support.apiserver import free_port
from support.scripted_server import until

BUSY_TICKS = 90
"""Hundredths of a second: more than a start takes on a slow machine, and less than all that is rendered."""


def states(node: ManagedNode) -> dict[str, tuple[str, str]]:
    """Return the conditions as (status, reason) by type."""
    return {one.type: (one.status, one.reason) for one in node.status.conditions}


async def test_a_new_host_introduces_itself(api: Api, start: Starts) -> None:
    agent = start()
    node = await api.ready()
    assert node.metadata.labels["kubernetes.io/hostname"] == "web1"
    assert node.metadata.labels["kubernetes.io/os"] == "linux"
    assert set(node.metadata.labels) >= {"kubernetes.io/arch", "nodemanager.io/os"}
    assert node.status.release
    assert node.status.last_file_bucket_gc  # old backups were looked for
    assert node.status.heartbeat is not None
    lease = await api.client.get(LEASES, node.status.heartbeat.lease_name, api.namespace)
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("web1", 60)
    assert agent.stop() == 0


async def test_labels_of_others_stay_and_ours_come_back(api: Api, start: Starts) -> None:
    meta = {"name": "web1", "namespace": api.namespace, "labels": {"role": "web", "kubernetes.io/os": "beos"}}
    await api.client.create(MANAGED_NODES, {"metadata": meta}, api.namespace)
    start()
    node = await api.ready()
    assert (node.metadata.labels["role"], node.metadata.labels["kubernetes.io/os"]) == ("web", "linux")
    await api.patch_node({"metadata": {"labels": {"nodemanager.io/os": None, "tier": "1"}}})
    node = await api.until(lambda one: "nodemanager.io/os" in one.metadata.labels)
    assert (node.metadata.labels["role"], node.metadata.labels["tier"]) == ("web", "1")


async def test_a_host_that_was_called_silent_says_again_how_it_is(api: Api, start: Starts) -> None:
    """It was frozen for a while, say: nothing but the word of the operator has changed since."""
    start()
    node = await api.ready()
    ready = conditions.Condition(type="Ready", status="Unknown", reason="AgentSilent")
    alive = conditions.Condition(type="Alive", status="False", reason="LeaseExpired")
    marked = node.status.conditions
    for one in (ready, alive):
        marked = conditions.set_condition(marked, one, "2026-01-01T00:00:00Z")
    patch = MergePatch({"status": {"conditions": msgspec.to_builtins(marked)}})
    await api.client.patch(MANAGED_NODES, "web1", api.namespace, patch, subresource="status")
    node = await api.until(lambda one: states(one)["Ready"] == ("True", "Applied"))
    assert states(node)["Alive"] == ("False", "LeaseExpired"), "that is not its own to say"


async def test_a_pass_that_renders_when_it_is_told_to_stop_ends_well(api: Api, start: Starts) -> None:
    """Whoever renders must outlive it: else a template that is fine would be reported as broken."""
    agent = start()
    await api.ready()
    slow = "{% for one in range(90000) %}{% endfor %}slow\n"
    files = [owned(f"/etc/slow/{number}", template=slow, engine="jinja") for number in range(250)]
    await api.config_set("slow", files=files)
    assert agent.process is not None
    children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children")

    def renders() -> bool:
        """Whether the process that renders is past its start, which takes less than this."""
        work = [Path(f"/proc/{child}/stat").read_text() for child in children.read_text().split()]
        return any(int(one.rpartition(")")[2].split()[11]) >= BUSY_TICKS for one in work)

    await until(renders)
    assert agent.stop() == 0
    node = await api.node()
    assert not [one.error for one in node.status.configsets if one.error], node.status
    slow_ones = agent.root / "etc/slow"
    written = {one.read_text() for one in slow_ones.iterdir()} if slow_ones.exists() else set()
    # A pass has 20 s to end by itself, which may be too little here, but not for a file to be whole.
    cut_off = "cancelling what did not finish in 20 s" in agent.log.read_text()
    assert written == {"slow\n"} or (cut_off and written <= {"slow\n"}), agent.log.read_text()


async def test_the_status_is_written_only_when_it_changes(api: Api, start: Starts) -> None:
    port = free_port()
    agent = start(metrics=f"127.0.0.1:{port}")
    await api.config_set("motd", files=[owned("/etc/motd", content="hello\n")])
    await api.ready("motd")

    async def passes() -> float:
        _, text = await agent.get(f"127.0.0.1:{port}", "/metrics")
        found = re.findall(
            r'^controller_runtime_reconcile_total\{controller="host".*\} (\S+)$', text, re.MULTILINE
        )
        return sum(map(float, found))

    async def another() -> None:
        before = await passes()
        agent.signal()
        async with asyncio.timeout(50):
            while await passes() <= before:  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(0.02)

    await another()
    version = (await api.node()).metadata.resource_version
    for _ in range(5):
        await another()
    assert (await api.node()).metadata.resource_version == version


async def test_a_hangup_repairs_files_at_once(api: Api, start: Starts) -> None:
    agent = start()
    await api.config_set("motd", files=[owned("/etc/motd", content="hello\n")])
    await api.ready("motd")
    agent.at("/etc/motd").write_text("changed by hand\n")
    agent.signal(signal.SIGHUP)
    await agent.reads("/etc/motd", "hello\n")
    node = await api.until(lambda one: one.status.drift is not None)
    assert node.status.drift is not None
    assert (node.status.drift.repaired, node.status.drift.last_resource) == (1, "file:/etc/motd")
    async with asyncio.timeout(50):
        while True:
            events = (await api.client.list(EVENTS, Selection(api.namespace))).items
            if any(one.reason == "DriftRepaired" and "/etc/motd" in one.message for one in events):
                break
            await asyncio.sleep(0.05)
    assert {one.involved_object.name for one in events} == {"web1"}


async def test_an_annotation_asks_for_a_pass_too(api: Api, start: Starts) -> None:
    agent = start()
    await api.config_set("motd", files=[owned("/etc/motd", content="hello\n")])
    await api.ready("motd")
    agent.at("/etc/motd").write_text("changed by hand\n")
    stamp = {"nodemanager.io/reconcile-trigger": "2026-01-01T00:00:00Z"}
    await api.patch_node({"metadata": {"annotations": stamp}})
    await agent.reads("/etc/motd", "hello\n")


async def test_the_period_of_the_spec_asks_for_passes(api: Api, start: Starts) -> None:
    agent = start()
    await api.config_set("motd", files=[owned("/etc/motd", content="hello\n")])
    await api.ready("motd")
    await api.patch_node({"spec": {"reconcilePeriod": "1s"}})
    await api.until(lambda one: one.status.observed_generation == one.metadata.generation > 1)
    agent.at("/etc/motd").write_text("changed by hand\n")
    await agent.reads("/etc/motd", "hello\n")


async def test_sets_come_change_and_go(api: Api, start: Starts) -> None:
    agent = start()
    await api.ready()
    await api.config_set("motd", labels={"role": "web"}, files=[owned("/etc/motd", content="one\n")])
    await api.config_set("issue", files=[owned("/etc/issue", content="one\n")])
    await api.ready("issue")
    assert not agent.at("/etc/motd").exists()
    await api.patch_node({"metadata": {"labels": {"role": "web"}}})
    await api.ready("issue", "motd")
    await agent.reads("/etc/motd", "one\n")
    await api.respec("motd", files=[owned("/etc/motd", content="two\n")])
    await agent.reads("/etc/motd", "two\n")
    await api.patch_node({"metadata": {"labels": {"role": None}}})
    await api.ready("issue")
    await api.client.delete(CONFIG_SETS, "issue", api.namespace)
    await api.ready()
    assert agent.at("/etc/motd").read_text() == "two\n"  # nothing is undone
    assert agent.at("/etc/issue").exists()


async def test_a_conflict_holds_back_one_resource_and_is_told(api: Api, start: Starts) -> None:
    agent = start()
    both = owned("/etc/both", content="x\n")
    await api.config_set("a", files=[owned("/etc/a", content="a\n"), both])
    await api.ready("a")
    await api.config_set("b", files=[owned("/etc/b", content="b\n"), {**both, "content": "y\n"}])
    node = await api.until(lambda one: states(one).get("Conflicted") == ("True", "ResourceConflict"))
    assert [one.conflicts for one in node.status.configsets] == [
        ['file:/etc/both (also in configset "b")'],
        ['file:/etc/both (also in configset "a")'],
    ]
    assert states(node)["Ready"] == ("False", "ApplyFailed")
    assert "give one a higher spec.priority" in node.status.configsets[0].error
    assert agent.at("/etc/b").read_text() == "b\n"
    assert agent.at("/etc/both").read_text() == "x\n"
    await api.respec("b", priority=1)
    await api.ready("a", "b")
    assert agent.at("/etc/both").read_text() == "y\n"
    assert states(await api.node())["Conflicted"] == ("False", "NoConflict")


async def test_metrics_probes_and_series_that_end(api: Api, start: Starts) -> None:
    metrics, probes = (f"127.0.0.1:{free_port()}" for _ in range(2))
    agent = start(metrics=metrics, probes=probes)
    await api.config_set("motd", files=[owned("/etc/motd", content="hello\n")])
    await api.ready("motd")
    assert (await agent.get(probes, "/healthz"))[0] == 200
    assert (await agent.get(probes, "/readyz"))[0] == 200
    _, text = await agent.get(metrics, "/metrics")
    one = 'node="web1",configset="motd"'
    for series in (
        f'nodemanager_configset_apply_total{{{one},result="success"}}',
        f"nodemanager_configset_apply_duration_seconds_count{{{one}}}",
        f"nodemanager_last_configset_apply_timestamp_seconds{{{one}}}",
        f"nodemanager_configset_applied_resource_version{{{one},resource_version=",
        f'nodemanager_file_changes_total{{{one},result="success"}} 1',
        "nodemanager_build_info{version=",
    ):
        assert series in text, series
    await api.client.delete(CONFIG_SETS, "motd", api.namespace)
    await api.ready()
    assert 'configset="motd"' not in (await agent.get(metrics, "/metrics"))[1]


async def test_others_are_told_when_a_set_holds(api: Api, start: Starts) -> None:
    start()
    refs = [
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "v1", "kind": "Nonsense", "name": "x"},  # costs a warning
        {"apiVersion": "common.nodemanager/v1", "kind": "ManagedNode", "name": "web1"},
    ]
    body = {"metadata": {"name": "told", "namespace": api.namespace}, "data": {"a": "b"}}
    await api.client.create(CONFIG_MAPS, body, api.namespace)
    await api.config_set("motd", files=[owned("/etc/motd", content="hello\n")], notifies=refs)
    await api.ready("motd")
    node = await api.until(lambda one: one.metadata.annotations.get("nodemanager.io/notify-motd") == "1")
    told = await api.client.get(CONFIG_MAPS, "told", api.namespace)
    assert (told.metadata.annotations["nodemanager.io/notify-motd"], told.data) == ("1", {"a": "b"})
    await api.respec("motd", priority=1)
    node = await api.until(lambda one: one.metadata.annotations.get("nodemanager.io/notify-motd") == "2")
    assert states(node)["Ready"] == ("True", "Applied")


async def test_the_agent_outlives_its_api(tmp_path: Path) -> None:
    """Only on a server of our own: this one is killed."""
    (tmp_path / "host" / "etc").mkdir(parents=True)
    with server_process.running(tmp_path / "data") as server:
        port, space = server.port, server_process.NAMESPACE
        kept = tmp_path / "kubeconfig"
        kept.write_bytes(server.kubeconfig.read_bytes())
        agent = Agent(tmp_path / "host", space, kept)
        try:
            async with api_of(kept, space) as api:
                agent.start()
                await api.config_set("motd", files=[owned("/etc/motd", content="one\n")])
                await api.ready("motd")
            server.stop(signal.SIGKILL)
            agent.at("/etc/motd").write_text("changed while nobody was there\n")
            agent.signal()
            await agent.reads("/etc/motd", "one\n")  # what it knows still holds
            server.start(port)
            async with api_of(kept, space) as api:
                await api.until(lambda one: one.status.drift is not None)
                await api.respec("motd", files=[owned("/etc/motd", content="two\n")])
                await agent.reads("/etc/motd", "two\n")
            assert agent.stop() == 0
        finally:
            agent.end()


async def test_a_deleted_managed_node_is_made_again(api: Api, start: Starts) -> None:
    start()
    first = await api.ready()
    await api.client.delete(MANAGED_NODES, "web1", api.namespace)
    second = await api.until(lambda one: one.metadata.uid != first.metadata.uid and one.status.release)
    assert second.metadata.labels["kubernetes.io/hostname"] == "web1"
    assert conditions.is_true((await api.ready()).status.conditions, conditions.READY)
