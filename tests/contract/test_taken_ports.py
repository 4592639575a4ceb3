"""Ports that somebody else has: the agent tells, and goes on; by default our own parts do not collide."""

from __future__ import annotations

import asyncio
import socket

import click
import pytest

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.cli.commands.running import agent as agent_command
from nodemanager.cli.commands.running import operator as operator_command
from nodemanager.kube import conditions
from nodemanager.runtime import probes
from support.agent_process import Api, Starts, owned
from support.cli import run


def served(node: ManagedNode) -> tuple[str, str]:
    found = conditions.get(node.status.conditions, "Served")
    return (found.status, found.reason) if found else ("", "")


async def test_a_port_that_is_taken_is_told_waited_for_and_never_the_end_of_the_agent(
    api: Api, start: Starts
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        agent = start(metrics=f"127.0.0.1:{port}")
        await api.config_set("motd", files=[owned("/etc/motd", content="x\n")])
        node = await api.ready("motd")
        assert served(node) == ("False", "AddressUnavailable")
        said = f"cannot listen on 127.0.0.1:{port} for metrics: it is in use"
        assert agent.log.read_text().count(said) == 1
        where = ("--kubeconfig", str(api.kubeconfig), "-n", api.namespace)
        shown = (await asyncio.to_thread(run, "describe", "mn", "web1", *where)).stdout
        assert said in " ".join(shown.split())
    await api.until(lambda one: served(one) == ("True", "Listening"))
    assert (await agent.get(f"127.0.0.1:{port}", "/metrics"))[0] == 200
    assert agent.stop() == 0


def defaults(command: click.Command) -> set[probes.ListenAddress | None]:
    names = ("metrics_bind_address", "health_probe_bind_address")
    found = {one.name: one.default for one in command.params}
    return {probes.parse_address(str(found[name])) for name in names}


@pytest.mark.parametrize("command", [agent_command.command, operator_command.command])
def test_what_one_of_us_serves_is_on_two_ports_of_loopback(command: click.Command) -> None:
    assert {one.host for one in defaults(command) if one} == {probes.LOOPBACK}
    assert len(defaults(command)) == 2


def test_operator_and_agent_on_one_machine_do_not_collide() -> None:
    assert not defaults(agent_command.command) & defaults(operator_command.command)
    assert {one.port for one in defaults(agent_command.command) if one} == {8080, 8081}, "as the Go program"
