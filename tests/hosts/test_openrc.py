"""The OpenRC adapter, with the real OpenRC of Debian."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import host_python
from support.host_services import Services
from support.listener import Listener
from support.nspawn import Machine
from support.openrc_machine import OpenRCMachine

NAPS = """#!/sbin/openrc-run
command=/bin/sleep
command_args={seconds}
command_background=yes
pidfile=/run/{name}.pid
retry=TERM/10
"""
"""Without `retry`, Debian's start-stop-daemon does not wait for the end of what it stops: a restart may find
it still there."""
RELOADS = 'extra_started_commands="reload"\nreload() {{ touch /run/{name}.reloaded; }}\n'


def script(host: OpenRCMachine, name: str, more: str = "", seconds: str = "infinity") -> None:
    """Write the script of a service that sleeps."""
    text = (NAPS + more).format(name=name, seconds=seconds)
    host.machine.write(f"/etc/init.d/{name}", text, 0o755)


@pytest.fixture(scope="module")
def host() -> Iterator[OpenRCMachine]:
    with Machine.boot(packages=("openrc",), binds=host_python.binds()) as machine:
        yield OpenRCMachine.on(machine)


@pytest.fixture
def services(host: OpenRCMachine) -> Services:
    return Services(host)


def test_bug_12_a_service_is_running_only_if_it_runs(host: OpenRCMachine, services: Services) -> None:
    script(host, "nap")
    fact = services.look("nap")
    assert (fact.known, fact.running, fact.enabled, fact.state) == (True, False, False, "stopped")
    assert services.do("start", "nap") == ""
    fact = services.look("nap")
    assert (fact.running, fact.state, fact.error) == (True, "started", "")
    first = host.machine.read("/run/nap.pid")
    assert services.do("restart", "nap") == ""
    assert host.machine.read("/run/nap.pid") != first
    assert services.do("stop", "nap") == ""
    assert services.look("nap").running is False
    assert services.look("nothing-of-the-kind").known is False


def test_enabled_is_what_starts_at_boot(host: OpenRCMachine, services: Services) -> None:
    script(host, "early")
    assert services.do("enable", "early") == ""
    assert services.look("early").enabled is True
    assert "early" in host.run("rc-update", "show", "default").stdout
    assert services.do("enable", "early") == ""
    host.run("rc-update", "add", "early", "boot")
    host.run("rc-update", "add", "early", "off")
    assert services.do("disable", "early") == ""
    assert services.look("early").enabled is False
    assert services.do("disable", "early") == ""
    assert "early" in host.run("rc-update", "show", "off").stdout
    error = services.do("enable", "nothing-of-the-kind")
    assert error.startswith("cannot enable nothing-of-the-kind: rc-update exited with 1"), error


def test_reload_reloads_or_restarts(host: OpenRCMachine, services: Services) -> None:
    script(host, "can", RELOADS)
    script(host, "cannot")
    for name in ("can", "cannot"):
        assert services.do("start", name) == ""
    before = {name: host.machine.read(f"/run/{name}.pid") for name in ("can", "cannot")}
    for name in ("can", "cannot"):
        assert services.do("reload", name) == ""
    assert host.machine.read("/run/can.pid") == before["can"]
    assert host.machine.run("ls", "/run/can.reloaded").stdout
    assert host.machine.read("/run/cannot.pid") != before["cannot"]


def test_one_that_exits_did_not_start(host: OpenRCMachine, services: Services) -> None:
    # Debian has its own start-stop-daemon, which does not tell OpenRC what it started.
    script(host, "brief", "status() {{ test -d /proc/$(cat /run/{name}.pid) || return 32; }}\n", "0.5")
    error = services.do("start", "brief", delay=5.0)
    assert error.startswith("cannot start brief: it started and exited, and is crashed now"), error
    script(host, "wrong", 'start_pre() {{ eerror "no coffee left"; return 1; }}\n')
    assert "no coffee left" in services.do("start", "wrong")


def test_services_of_users_are_refused(services: Services) -> None:
    assert "OpenRC has no services of users" in services.look("nap", "bob").error
    assert "OpenRC has no services of users" in services.do("start", "nap", "bob")


def test_what_is_done_to_a_service_is_heard(host: OpenRCMachine, services: Services) -> None:
    script(host, "heard")
    assert services.do("enable", "heard") == ""
    assert services.do("start", "heard") == ""
    listener = Listener(host.machine, "OpenRC", services=[{"name": "heard"}])
    try:
        assert "dead daemons" in listener.wait("service:heard")["shortfalls"][0]
        for deed in ("stop", "start", "disable"):
            listener.quiet()
            assert services.do(deed, "heard") == ""
            listener.wait("service:heard")
    finally:
        listener.close()
