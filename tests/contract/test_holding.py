"""A host that is held: nothing on it is changed, everything is told, and what waited is done at its end."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetStatus, NodeCounts
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.cli.views.describe import configset
from nodemanager.client.calls import Selection
from nodemanager.controllers.configsets.rollup import summarise
from nodemanager.kube import conditions, errors, times
from nodemanager.kube.core import EVENTS
from support import cli, kubeconfigs
from support.agent_process import Agent, Api, Starts, owned
from support.apiserver import free_port

PATH = "/etc/motd"


def condition(node: ManagedNode, kind: str) -> tuple[str, str, str]:
    found = conditions.get(node.status.conditions, kind)
    return (found.status, found.reason, found.message) if found else ("", "", "")


def is_held(node: ManagedNode) -> bool:
    return condition(node, "Held")[0] == "True"


async def run(api: Api, *args: str) -> cli.Ran:
    """Run a command as the administrator."""
    where = ("--kubeconfig", str(api.kubeconfig), "-n", api.namespace)
    return await asyncio.to_thread(cli.run, *args, *where)


async def here(agent: Agent, *args: str) -> cli.Ran:
    """Run a command on the host itself, without the API."""
    return await asyncio.to_thread(cli.run, *args, "--root", str(agent.root))


async def reasons(api: Api) -> list[str]:
    events = (await api.client.list(EVENTS, Selection(api.namespace))).items
    return [one.reason for one in events if one.involved_object.name == "web1"]


async def rolled_up(api: Api, name: str) -> tuple[dict[str, int], str, str]:
    """Return how the operator counts a set."""
    found: ConfigSet = await api.client.get(CONFIG_SETS, name, api.namespace)
    status = summarise(found, [await api.node()], times.rfc3339(datetime.now(UTC)))
    ready = conditions.get(status.conditions, "Ready")
    assert status.nodes is not None
    assert ready is not None
    counts = {"applied": status.nodes.applied, "failed": status.nodes.failed, "held": status.nodes.held}
    return counts, ready.status, ready.message


async def test_a_hold_from_the_api_keeps_the_host_as_it_is_until_it_is_ended(api: Api, start: Starts) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    agent = start(metrics=metrics)
    await api.config_set("motd", files=[owned(PATH, content="one\n")])
    await api.ready("motd")
    done = await run(api, "hold", "web1", "--reason", "replacing a disk", "--for", "2h")
    assert (done.code, done.stderr) == (0, "")
    assert re.match(r"web1 is held until \S+Z \(120m\): replacing a disk; to end it", done.stdout), done
    node = await api.until(is_held)
    assert condition(node, "Held")[1] == "HeldByAPI"
    assert condition(node, "Ready")[:2] == ("True", "Applied"), "everything still holds"
    await api.respec("motd", files=[owned(PATH, content="two\n"), owned("/etc/new", content="x\n")])
    node = await api.until(lambda one: condition(one, "Ready")[1] == "Held")
    assert condition(node, "Ready")[0] == "False", "nobody who waits for Ready is fooled"
    assert "file:/etc/new" in condition(node, "Ready")[2]
    assert condition(node, "Drifted")[0] == "False", "a new declaration is no drift"
    assert [(one.observed_generation, one.held, one.error) for one in node.status.configsets] == [(1, 2, "")]
    assert agent.at(PATH).read_text() == "one\n"
    counts, ready, message = await rolled_up(api, "motd")
    assert (counts, ready) == ({"applied": 0, "failed": 0, "held": 1}, "False")
    assert message == "waits for the end of a hold on web1"
    found = await api.client.get(CONFIG_SETS, "motd", api.namespace)
    counted = msgspec.structs.replace(found, status=ConfigSetStatus(nodes=NodeCounts(matched=1, held=1)))
    assert "0 conflicted, 1 held\n" in configset.render(counted, [], datetime.now(UTC))
    assert 'nodemanager_held{node="web1"} 1' in (await agent.get(metrics, "/metrics"))[1]
    shown = (await run(api, "describe", "mn", "web1")).stdout
    said = " ".join(shown.split())
    assert re.search(r"Held: since .* ago\): replacing a disk; held until \S+, by \S+@", said), shown
    assert re.search(r"HELD.*\n.*\bTrue\b", (await run(api, "get", "mn", "web1")).stdout)
    done = await run(api, "unhold", "web1")
    assert done.stdout == "web1 is not held through the API any more\n"
    await agent.reads(PATH, "two\n")
    node = await api.ready("motd")
    assert condition(node, "Held")[:2] == ("False", "NotHeld")
    assert [(one.observed_generation, one.held) for one in node.status.configsets] == [(2, 0)]
    assert node.status.drift is None, "what waited is news, and nobody else's doing"
    async with asyncio.timeout(90):
        while not {"Held", "HoldEnded"} <= set(await reasons(api)):  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.05)
    assert agent.log.read_text().count("this host is held: replacing a disk") == 1
    assert agent.log.read_text().count("the hold has ended") == 1


async def test_drift_on_a_host_that_is_held_is_counted_and_undone_at_the_end(api: Api, start: Starts) -> None:
    agent = start()
    await api.config_set("motd", files=[owned(PATH, content="one\n")])
    await api.ready("motd")
    assert (await run(api, "hold", "web1", "--reason", "debugging")).code == 0
    agent.at(PATH).write_text("by hand\n")
    node = await api.until(lambda one: one.status.drift is not None and one.status.drift.observed)
    assert condition(node, "Drifted")[:2] == ("True", "Observed")
    assert condition(node, "Ready")[:2] == ("False", "Held")
    assert (await rolled_up(api, "motd"))[0] == {"applied": 0, "failed": 0, "held": 1}
    assert agent.at(PATH).read_text() == "by hand\n"
    assert (await run(api, "hold", "web1", "--end")).code == 0
    await agent.reads(PATH, "one\n")
    node = await api.until(lambda one: one.status.drift is not None and one.status.drift.repaired)
    assert node.status.drift is not None
    assert (node.status.drift.repaired, node.status.drift.observed) == (1, 1)
    await api.ready("motd")


async def test_a_hold_ends_by_itself_and_what_its_spec_still_says_does_not_matter(
    api: Api, start: Starts
) -> None:
    agent = start()
    await api.config_set("motd", files=[owned(PATH, content="one\n")])
    await api.ready("motd")
    assert (await run(api, "hold", "web1", "--reason", "a moment", "--for", "3s")).code == 0
    agent.at(PATH).unlink()
    await agent.reads(PATH, "one\n")
    node = await api.until(lambda one: condition(one, "Held")[0] == "False")
    assert node.spec.hold is not None
    assert "the hold has ended (a moment)" in agent.log.read_text()


async def test_root_holds_a_host_without_the_api_and_across_a_restart(
    api: Api, start: Starts, tmp_path: Path
) -> None:
    agent = start()
    await api.config_set("motd", files=[owned(PATH, content="one\n")])
    await api.ready("motd")
    agent.stop()
    (agent.root / "run").mkdir()
    (tmp_path / "nowhere").mkdir()
    agent.kubeconfig = Path(cli.kubeconfig("http://127.0.0.1:1", tmp_path / "nowhere"))
    agent.start()
    await agent.logs("alone: ")
    await agent.sees((agent.root / "run/nodemanager/agent.sock").exists)
    done = await here(agent, "hold", "--reason", "debugging sshd", "--for", "2h")
    assert (done.code, done.stderr) == (0, "")
    assert "this host is held until" in done.stdout
    assert "to end it before: nodemanager unhold" in done.stdout
    agent.at(PATH).write_text("by hand\n")
    await agent.logs("drift: file:/etc/motd is held back")
    shown = await here(agent, "status")
    assert re.search(r"Held: +for .* more, until \S+, on this host, by \S+: debugging sshd", shown.stdout)
    assert json.loads((await here(agent, "status", "-o", "json")).stdout)["hold"]["origin"] == "HeldByHost"
    agent.end()
    agent.start()
    await agent.logs("this host is held: debugging sshd", 2)
    await agent.sees((agent.root / "run/nodemanager/agent.sock").exists)
    agent.signal()
    await agent.logs("drift: file:/etc/motd is held back", 2)
    assert agent.at(PATH).read_text() == "by hand\n"
    agent.stop()
    agent.kubeconfig = api.kubeconfig
    agent.start()
    node = await api.until(is_held)  # the API hears of it when it is there again
    assert condition(node, "Held")[1] == "HeldByHost"
    assert "nobody" not in (await here(agent, "unhold")).stdout
    await agent.reads(PATH, "one\n")
    await api.until(lambda one: condition(one, "Held")[0] == "False")


async def test_a_hold_that_was_asked_for_while_the_agent_was_down_is_obeyed(api: Api, start: Starts) -> None:
    agent = start()
    await api.config_set("motd", files=[owned(PATH, content="one\n")])
    await api.ready("motd")
    agent.stop()
    done = await run(api, "hold", "web1", "--reason", "it is down anyway", "--wait", "0s")
    assert "it has not confirmed that yet" in done.stdout
    assert "not yet, its agent has not confirmed it" in (await run(api, "describe", "mn", "web1")).stdout
    agent.at(PATH).write_text("by hand\n")
    agent.start()
    await api.until(lambda one: condition(one, "Ready")[1] == "Held")
    assert agent.at(PATH).read_text() == "by hand\n"


async def test_restore_says_that_the_agent_undoes_it_and_can_hold_it_off(
    api: Api, start: Starts, tmp_path: Path
) -> None:
    (tmp_path / "hosts/web1/run").mkdir(parents=True)
    agent = start()
    agent.at(PATH).write_text("before\n")
    await api.config_set("motd", files=[owned(PATH, content="one\n")])
    await api.ready("motd")
    done = await here(agent, "restore", PATH)
    assert done.code == 0
    assert done.stderr.startswith("warning: ConfigSet motd declares /etc/motd, so the agent puts that back")
    digest = re.search(r"--to (\w+) --hold", done.stderr)
    assert digest is not None
    await agent.reads(PATH, "one\n")
    done = await here(agent, "restore", PATH, "--to", digest[1], "--hold", "--for", "2h")
    assert (done.code, done.stderr) == (0, "")
    assert "this host is held until" in done.stdout
    node = await api.until(lambda one: condition(one, "Ready")[1] == "Held")
    assert condition(node, "Held")[2].startswith("restored /etc/motd; held on the host itself until")
    assert agent.at(PATH).read_text() == "before\n"


async def test_what_cannot_be_held_is_refused(api: Api, tmp_path: Path) -> None:
    done = await run(api, "hold", "web9", "--reason", "x")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: cannot hold web9: there is no such host in namespace"), done
    assert (await run(api, "unhold", "web9")).code == 1
    assert "give a reason" in (await run(api, "hold", "web9")).stderr
    long = await run(api, "hold", "web9", "--reason", "x", "--for", "169h")
    assert long.code == 2
    assert "--for 169h is longer than 168h" in long.stderr
    assert "--until TIME" in long.stderr
    for until in ("2020-01-01T00:00:00Z", "2099-01-01T00:00:00", "tomorrow"):
        assert (await run(api, "hold", "web9", "--reason", "x", "--until", until)).code == 2
    await api.client.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, api.namespace)
    for hold in ({"until": "2099-01-01T00:00:00Z"}, {"reason": "x"}, {"reason": "", "until": "tomorrow"}):
        with pytest.raises(errors.Invalid, match=r"spec\.hold"):
            await api.patch_node({"spec": {"hold": hold}})
    server = {"server": f"http://127.0.0.1:{free_port()}"}
    nowhere = kubeconfigs.write(tmp_path / "kubeconfig", kubeconfigs.build(cluster=server))
    argv = ("hold", "web1", "--reason", "x", "--kubeconfig", nowhere)
    away = await asyncio.to_thread(cli.run, *argv)
    assert away.code == 1
    assert "on web1 itself that needs no API, but root: sudo nodemanager hold --reason TEXT" in away.stderr
    empty = await asyncio.to_thread(cli.run, "hold", "--reason", "x", "--root", str(tmp_path))
    assert (empty.code, empty.stdout) == (1, "")
    assert "no agent was ever here" in empty.stderr
