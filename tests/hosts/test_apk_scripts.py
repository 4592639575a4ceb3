"""What our apk does to a service that OpenRC runs: its own scripts, with the real OpenRC of Debian.

There is no apk here: that it runs them, and when, is Alpine's affair. The agent is a script that goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.host.init.systems import SYSTEMS
from support.fleet import until
from support.nspawn import Machine
from support.openrc_machine import OpenRCMachine

SCRIPTS = Path(__file__).parents[2] / "tools/packages/alpine"
UPGRADED, REMOVED = "/srv/post-upgrade", "/srv/pre-deinstall"
PROGRAM = "/usr/bin/nodemanager"
KUBECONFIG = "/etc/nodemanager/kubeconfig"
STATE = "/var/lib/nodemanager/state"
BEGUN = f"{UPGRADED}|rc-service|openrc-run"
AGENT = "#!/bin/sh\necho {version} >>/var/log/started\nwhile :; do sleep 1; done\n"


@pytest.fixture(scope="module")
def booted() -> Iterator[OpenRCMachine]:
    with Machine.boot(packages=("openrc", "procps")) as machine:
        for path in (UPGRADED, REMOVED):
            machine.write(path, (SCRIPTS / Path(path).name).read_text(), 0o755)
        for path in (KUBECONFIG, STATE):
            machine.write(path, "{}\n", 0o600)
        machine.write("/etc/init.d/nodemanager", SYSTEMS["openrc"].unit(PROGRAM), 0o755)
        yield OpenRCMachine.on(machine)


@pytest.fixture
def host(booted: OpenRCMachine) -> OpenRCMachine:
    """A host with the old agent, which starts at boot, and does not run."""
    booted.run("rc-service", "nodemanager", "stop", check=False)
    booted.machine.run("rm", "-f", "/var/log/started")
    booted.machine.write(PROGRAM, AGENT.format(version="old"), 0o755)
    booted.run("rc-update", "add", "nodemanager", "default")
    return booted


def started(host: OpenRCMachine) -> list[str]:
    return host.machine.run("cat", "/var/log/started", check=False).stdout.split()


def runs(host: OpenRCMachine) -> bool:
    return host.machine.run("pgrep", "-f", f"^/bin/sh {PROGRAM}", check=False).returncode == 0


def replace_program(host: OpenRCMachine) -> None:
    """Put the new program in the place of the old one, as apk does before it runs our script."""
    host.machine.write(f"{PROGRAM}.apk-new", AGENT.format(version="new"), 0o755)
    host.machine.run("mv", f"{PROGRAM}.apk-new", PROGRAM)


def test_an_upgrade_restarts_an_agent_that_runs(host: OpenRCMachine) -> None:
    host.run("rc-service", "nodemanager", "start")
    until(lambda: started(host) == ["old"], "the old agent")
    replace_program(host)
    host.run(UPGRADED)
    until(lambda: started(host) == ["old", "new"], "the new agent")
    until(lambda: host.run("rc-service", "nodemanager", "status", check=False).returncode == 0, "the service")


def test_an_upgrade_starts_no_agent_that_was_stopped(host: OpenRCMachine) -> None:
    replace_program(host)
    host.run(UPGRADED)
    # The script waits for nothing that it began: what it began is over when nobody runs rc-service.
    until(lambda: host.machine.run("pgrep", "-f", BEGUN, check=False).returncode, "its end")
    assert (started(host), runs(host)) == ([], False)


def test_a_removal_stops_the_agent_and_keeps_what_it_needs_to_go_on(host: OpenRCMachine) -> None:
    host.run("rc-service", "nodemanager", "start")
    until(lambda: runs(host), "the agent")
    host.run(REMOVED)
    assert not runs(host)
    assert host.run("rc-service", "nodemanager", "status", check=False).returncode != 0
    assert "nodemanager" not in host.run("rc-update", "show").stdout
    assert [host.machine.read(path) for path in (KUBECONFIG, STATE)] == ["{}\n"] * 2


def test_where_openrc_was_not_booted_nothing_is_started_or_stopped(host: OpenRCMachine) -> None:
    """As in a container, or in a root that an image is made of."""
    host.run("rc-service", "nodemanager", "start")
    until(lambda: runs(host), "the agent")
    host.machine.run("mv", "/run/openrc", "/run/openrc.away")
    try:
        host.run(UPGRADED)
        host.run(REMOVED)
        assert (started(host), runs(host)) == (["old"], True)
    finally:
        host.machine.run("rm", "-rf", "/run/openrc")
        host.machine.run("mv", "/run/openrc.away", "/run/openrc")
