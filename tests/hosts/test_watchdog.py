"""A real systemd restarts an agent that hangs, whichever way, and is not bothered by one that is well."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from support.fleet import until
from support.source_host import SourceHost, unit

WATCHDOG = 10
"""Seconds; fewer, and systemd ends an agent that is well, but hardly gets the CPU."""
AGENT = "support.hanging_agent"


@pytest.fixture(scope="module")
def shared_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceHost]:
    with SourceHost.up(tmp_path_factory.mktemp("host"), "nm-watchdog") as host:
        host.enroll(unit(module=AGENT, WatchdogSec=str(WATCHDOG), TimeoutAbortSec="10"))
        host.api.config_set("motd", host.name, files=[{"path": "/etc/motd", "content": "hello\n"}])
        host.converge("motd")
        yield host


@pytest.fixture
def host(shared_host: SourceHost, request: pytest.FixtureRequest) -> Iterator[SourceHost]:
    failed = request.session.testsfailed
    yield shared_host
    if request.session.testsfailed > failed:
        sys.stdout.write(shared_host.log()[-8000:])


def pid(host: SourceHost) -> int:
    return int(host.shows("nodemanager", "MainPID"))


def kill(host: SourceHost, name: str) -> int:
    """Send the agent a signal, and return which process that was."""
    victim = pid(host)
    host.machine.run("kill", f"-{name}", str(victim))
    return victim


def comes_back(host: SourceHost, victim: int) -> None:
    """Wait until another agent is up and does its work."""
    until(lambda: pid(host) not in (0, victim), "another process")
    until(lambda: host.is_active("nodemanager"), "an agent that is up")
    host.api.config_set("back", host.name, files=[{"path": "/etc/back", "content": f"after {victim}\n"}])
    host.converge("back")
    assert host.text("/etc/back") == f"after {victim}\n"


def test_systemd_knows_when_it_is_up_and_how_it_goes(host: SourceHost) -> None:
    wanted = r"\d ConfigSets?, \d resources?: all as declared; (last drift .*; )?API connected"
    until(lambda: re.fullmatch(wanted, host.shows("nodemanager", "StatusText")), "a line that says so")
    assert host.is_active("nodemanager")


def test_reload_is_heard_and_over_at_once(host: SourceHost) -> None:
    before = pid(host)
    host.machine.run("kill", "-HUP", str(before))
    host.machine.write("/etc/motd", "by hand\n")
    host.machine.run("kill", "-HUP", str(before))
    until(lambda: host.text("/etc/motd") == "hello\n", "a pass")
    assert pid(host) == before
    until(lambda: host.is_active("nodemanager"), "the end of the reload")


def test_an_agent_that_is_stopped_is_replaced(host: SourceHost) -> None:
    victim = kill(host, "STOP")
    comes_back(host, victim)
    assert "Watchdog timeout" in host.log()


def test_an_agent_whose_event_loop_stands_still_is_replaced_and_says_where(host: SourceHost) -> None:
    victim = kill(host, "USR1")
    comes_back(host, victim)
    log = host.machine.journal(f"_PID={victim}", lines=1000)
    assert "Fatal Python error: Aborted" in log
    assert "hang_for_ever" in log


def test_an_agent_whose_pass_hangs_in_a_thread_is_replaced_and_says_so(host: SourceHost) -> None:
    victim = pid(host)
    host.machine.write("/run/hang", "")
    host.machine.run("kill", "-HUP", str(victim))
    comes_back(host, victim)
    log = host.machine.journal(f"_PID={victim}", lines=1000)
    assert "a pass over this host hangs: nothing has happened in it for" in log
    assert "hang_for_ever" in log


def test_an_agent_whose_api_is_gone_is_up_and_stays(host: SourceHost) -> None:
    host.machine.run("systemctl", "stop", "nodemanager")
    kubeconfig = host.text("/etc/nodemanager/kubeconfig")
    lines = [
        line if "server:" not in line else "    server: https://127.0.0.1:1"
        for line in kubeconfig.splitlines()
    ]
    host.machine.write("/etc/nodemanager/kubeconfig", "\n".join(lines), 0o600)
    try:
        host.machine.run("systemctl", "start", "nodemanager")  # returns when it says that it is ready
        before = pid(host)
        until(lambda: "API alone" in host.shows("nodemanager", "StatusText"), "a line about the API")
        host.machine.run("sleep", str(2 * WATCHDOG))
        assert pid(host) == before
    finally:
        host.machine.write("/etc/nodemanager/kubeconfig", kubeconfig, 0o600)
        host.machine.run("systemctl", "restart", "nodemanager")
