"""The guard of an upgrade of the agent under the real OpenRC: what works stays, what does not is taken back.

The programs are scripts that do what a new agent would: prove itself, end at once, or hang.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import resources

import pytest

from nodemanager.host import init
from nodemanager.host.init.systems import SYSTEMS
from support.fleet import until
from support.nspawn import Machine
from support.openrc_machine import OpenRCMachine

STATE = "/var/lib/nodemanager/agent-upgrade"
PROGRAM = "/usr/local/bin/nodemanager"
KUBECONFIG = "/etc/nodemanager/kubeconfig"
SECONDS = 8
ALIVE = "#!/bin/sh\necho {name} >> /run/started\n{more}\nwhile :; do sleep 1; done\n"
PROVES = f"sed -n 's/^id=//p' {STATE}/intent > {STATE}/proof"
PROGRAMS = {
    "good": ALIVE.format(name="good", more=PROVES),
    "hang": ALIVE.format(name="hang", more="trap '' TERM"),
    "crash": "#!/bin/sh\necho crash >> /run/started\nexit 1\n",
}
OLD = ALIVE.format(name="old", more="")


def filled(name: str) -> str:
    """Return a file of the guard as an upgrade writes it."""
    text = (resources.files(init) / name).read_text()
    return text.replace("@STATE@", STATE).replace("@WRITTEN@", "test")


@pytest.fixture(scope="module")
def host() -> Iterator[OpenRCMachine]:
    with Machine.boot(packages=("openrc", "procps")) as machine:
        host = OpenRCMachine.on(machine)
        machine.run("mkdir", "-p", STATE, "/etc/nodemanager")
        machine.write(KUBECONFIG, "{}\n", 0o600)
        service = SYSTEMS["openrc"].unit(PROGRAM).replace("respawn_delay=10", "respawn_delay=1")
        machine.write("/etc/init.d/nodemanager", service, 0o755)
        machine.write("/etc/init.d/nodemanager-guard", filled("guard.openrc"), 0o755)
        machine.write(f"{STATE}/guard.sh", filled("guard.sh"), 0o700)
        yield host


def started(host: OpenRCMachine) -> list[str]:
    return host.machine.run("cat", "/run/started", check=False).stdout.split()


def begin(host: OpenRCMachine, name: str, old: str = OLD) -> None:
    """Do what an upgrade does up to where the guard goes on alone."""
    machine = host.machine
    host.run("rc-service", "nodemanager", "stop", check=False)
    machine.run("rm", "-f", "/run/started", f"{PROGRAM}.new", f"{PROGRAM}.previous", f"{STATE}/outcome")
    machine.write(PROGRAM, old, 0o755)
    host.run("rc-service", "nodemanager", "start")
    until(lambda: started(host) == ["old"], "the old agent")
    machine.write(f"{PROGRAM}.new", PROGRAMS[name], 0o755)
    machine.run("ln", PROGRAM, f"{PROGRAM}.previous")
    machine.write(
        f"{STATE}/intent",
        f"id={name}\nprogram={PROGRAM}\nseconds={SECONDS}\nbefore=0.1.0\nafter=0.2.0\n",
        0o600,
    )
    host.run("rc-service", "nodemanager-guard", "restart")  # as upgrades do: one that ended counts as started


@pytest.mark.parametrize(
    ("name", "result", "runs"),
    [("good", "proven", "good"), ("hang", "returned", "old"), ("crash", "returned", "old")],
)
def test_what_works_stays_and_what_does_not_is_taken_back(
    host: OpenRCMachine, name: str, result: str, runs: str
) -> None:
    begin(host, name)
    try:
        until(lambda: f"result={result}" in outcome(host), "the outcome", 60 + 6 * SECONDS)
    except BaseException:
        sys.stdout.write(host.machine.run("cat", "/var/log/nodemanager.log", check=False).stdout[-4000:])
        raise
    until(lambda: started(host)[-1:] == [runs], "the agent that is to run")
    assert name in started(host)
    text = host.machine.read(PROGRAM)
    assert text == (PROGRAMS["good"] if runs == "good" else OLD)
    assert host.machine.run("test", "-e", f"{STATE}/intent", check=False).returncode == 1
    assert host.run("rc-service", "nodemanager", "status", check=False).returncode == 0


def outcome(host: OpenRCMachine) -> str:
    return host.machine.run("cat", f"{STATE}/outcome", check=False).stdout


def test_an_old_agent_that_does_not_end_does_not_hold_up_the_way_back(host: OpenRCMachine) -> None:
    """OpenRC gives it 45 s; the guard, which waits for less, ends it."""
    begin(
        host, "hang", ALIVE.format(name="old", more="[ -e /run/hung ] || { touch /run/hung; trap '' TERM; }")
    )
    until(lambda: "result=returned" in outcome(host), "the outcome", 35)
    until(lambda: started(host)[1:] and started(host)[-1] == "old", "the old agent")
    until(lambda: host.run("rc-service", "nodemanager", "status", check=False).returncode == 0, "the service")
