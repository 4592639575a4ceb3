"""The options of the agent end up where they belong."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nodemanager.agent.options import AgentOptions
from nodemanager.cli.commands.running import agent as cmd_agent
from nodemanager.cli.settings import connect, logs
from support import cli


@pytest.fixture(name="started")
def _started(monkeypatch: pytest.MonkeyPatch) -> list[AgentOptions]:
    """Return the options of the agents that are started; none of them runs."""
    started: list[AgentOptions] = []

    async def run(_settings: connect.Settings, options: AgentOptions) -> None:
        started.append(options)

    monkeypatch.setattr(cmd_agent, "run", run)
    monkeypatch.setattr(logs, "configure", lambda *_, **_flags: None)
    return started


def test_the_options_of_upgrades_are_those_of_unit_files(started: list[AgentOptions]) -> None:
    ran = cli.run("-managednode.forgiveness-period=3h", "-managednode.drain-timeout", "90s")
    assert ran.code == 0, ran.stderr
    (options,) = started
    assert options.upgrades.forgiveness == timedelta(hours=3)
    assert options.upgrades.drain == 90


def test_without_options_everything_is_as_the_agent_has_it(started: list[AgentOptions]) -> None:
    assert cli.run("agent", "--hostname", "web1").code == 0
    (options,) = started
    assert options.upgrades == AgentOptions().upgrades
    assert options.period == AgentOptions().period


@pytest.mark.parametrize("name", ["forgiveness-period", "drain-timeout"])
def test_a_time_in_which_nothing_can_happen_is_wrong_usage(name: str, started: list[AgentOptions]) -> None:
    ran = cli.run("agent", f"--managednode.{name}", "0s")
    assert (ran.code, started) == (2, [])
    assert "0s is too short; 1s is the least" in ran.stderr


@pytest.mark.parametrize("name", ["WEB1", "web_1", "operator", "web1-drain"])
def test_a_name_that_no_host_can_have_is_refused_at_once(started: list[AgentOptions], name: str) -> None:
    ran = cli.run("agent", "--hostname", name)
    assert ran.code == 2
    assert "error: Invalid value for '--hostname': " in ran.stderr
    assert name in ran.stderr or "-drain" in ran.stderr
    assert not started
