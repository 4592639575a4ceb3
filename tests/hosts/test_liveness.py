"""Real hosts fall silent in every way they can; the operator marks them in time, and nobody else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from nodemanager.agent.report.heartbeat import DURATION
from support import debian_packages
from support.bridge import ip
from support.chaos import CLOCK, CLOCK_UNIT, namespace_of
from support.fleet import Fleet, Host, until

SILENCED: dict[str, tuple[Callable[[Host], object], Callable[[Host], object]]] = {
    "unplugged": (lambda host: host.machine.kill(), lambda host: host.machine.start()),
    "stopped": (
        lambda host: host.machine.run("systemctl", "stop", "nodemanager"),
        lambda host: host.machine.run("systemctl", "start", "nodemanager"),
    ),
    "cut": (
        lambda host: ip("-n", namespace_of(host), "link", "set", "eth0", "down"),
        lambda host: ip("-n", namespace_of(host), "link", "set", "eth0", "up"),
    ),
    "frozen": (lambda host: signalled(host, "STOP"), lambda host: signalled(host, "CONT")),
}
"""What silences a host, and what brings it back."""
LIVELY: dict[str, Callable[[Host], object]] = {
    "killed": lambda host: signalled(host, "KILL"),  # systemd starts it again ten seconds later
    # With a clock that is wrong by a year no certificate is valid: such a host is silent indeed.
    "skewed": lambda host: host.machine.write(CLOCK, "+1800\n"),
    "steady": lambda _host: None,
}
"""What does not."""
LATEST = 1.5 * DURATION + 60
"""The last minute is for a busy machine; that it is in time to the second is shown by virtual time."""


def signalled(host: Host, signal: str) -> None:
    """Send a signal to the agent."""
    host.machine.run("systemctl", "kill", "--kill-whom=main", f"--signal={signal}", "nodemanager")


@pytest.fixture(name="fleet", scope="module")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Hosts that are ready, each named after what becomes of it."""
    with Fleet.up(tmp_path_factory.mktemp("fleet"), *SILENCED, *LIVELY) as fleet:
        skewed = fleet["skewed"].machine
        library = debian_packages.faketime()
        skewed.copy(library, "/usr/local/lib/libfaketime.so.1")
        skewed.write("/etc/systemd/system/nodemanager.service.d/clock.conf", CLOCK_UNIT)
        for host in fleet.hosts.values():
            host.join()
        spec = {"nodeSelector": {}, "files": [{"path": "/etc/motd", "content": "x\n"}]}
        kind = {"apiVersion": "common.nodemanager/v1", "kind": "ConfigSet"}
        fleet.api.apply({**kind, "metadata": {"name": "motd"}, "spec": spec})
        yield fleet


def ready(fleet: Fleet) -> tuple[str, str]:
    """Return what the ConfigSet says of itself."""
    for one in fleet.api.get("ConfigSet", "motd")["status"]["conditions"]:
        if one["type"] == "Ready":
            return one["status"], one["message"]
    return "", ""


@pytest.mark.timeout(900)
def test_who_is_silent_is_marked_in_time_and_who_lives_is_not(fleet: Fleet) -> None:
    for host in fleet.hosts.values():
        until(lambda host=host: host.condition("Alive") == "True", f"{host.name} is alive")  # type: ignore[misc]
        host.converge("motd")
    until(lambda: ready(fleet)[0] == "True", "the set holds everywhere")
    for name, (silence, _) in SILENCED.items():
        silence(fleet[name])
    for name, act in LIVELY.items():
        act(fleet[name])
    waiting, deadline = set(SILENCED), time.monotonic() + LATEST
    while waiting:
        assert time.monotonic() < deadline, f"not marked within {LATEST:g} s: {waiting}"
        waiting = {name for name in waiting if fleet[name].condition("Alive") != "False"}
        wrong = {
            name: fleet[name].log()[-2000:] for name in LIVELY if fleet[name].condition("Alive") != "True"
        }
        assert not wrong
        time.sleep(1)
    for name in SILENCED:
        assert fleet[name].condition("Ready") == "Unknown"
        assert fleet[name].status()["lastSeen"]
    until(lambda: ready(fleet)[0] == "Unknown", "the set is unknown")
    until(lambda: all(fleet[name].name in ready(fleet)[1] for name in SILENCED), "and says because of whom")
    assert fleet.api.get("ConfigSet", "motd")["status"]["nodes"]["unknown"] == len(SILENCED)
    warned = fleet["cut"].machine.journal("-u", "nodemanager", "-p", "warning")
    assert "WARN  agent.report.heartbeat: cannot renew our Lease" in warned
    for name, (_, revive) in SILENCED.items():
        revive(fleet[name])
    for host in fleet.hosts.values():
        until(lambda host=host: host.condition("Alive") == "True", f"{host.name} is back")  # type: ignore[misc]
        until(lambda host=host: host.condition("Ready") == "True", f"{host.name} is ready again")  # type: ignore[misc]
        until(lambda host=host: "lastSeen" not in host.status(), f"{host.name} is seen")  # type: ignore[misc]
    until(lambda: ready(fleet)[0] == "True", "the set holds everywhere again")
