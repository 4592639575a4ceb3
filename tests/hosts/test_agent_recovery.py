"""One real host whose agent is killed, whose power fails, and on which somebody changes things by hand."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.fleet import Fleet, Host, apt_repository, until

FILES = 30
KILLS = 4
ROUNDS = 3
SERVICE = """\
[Service]
ExecStartPre=/bin/sh -c 'cat /etc/web/version >> /var/log/web.starts; cp /etc/web/version /run/web.seen'
ExecStart=/bin/sleep inf
[Install]
WantedBy=multi-user.target
"""
RECORD = "#!/bin/sh\ncat /etc/many/version >> /var/log/record\nsleep 0.5\n"


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host with a service of its own, and a package to lose."""
    folder = tmp_path_factory.mktemp("fleet")
    with apt_repository(folder / "apt") as repository:
        for number in range(ROUNDS):
            repository.publish(f"nm-tool{number}", "1.0-1")
    with Fleet.up(folder, "web", repository=repository.repo) as fleet:
        machine = fleet["web"].machine
        machine.write("/etc/systemd/system/web.service", SERVICE)
        machine.write("/usr/local/bin/record", RECORD, 0o755)
        fleet["web"].join()
        yield fleet


@pytest.fixture
def host(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host; what its agent wrote is printed when a test fails."""
    with shared_fleet.watched(request) as fleet:
        yield fleet["web"]


def web(version: str, **service: Any) -> dict[str, Any]:
    """Return a service that is restarted when its file changes."""
    subscribed = {"subscribe_files": ["/etc/web/version"]}
    return {
        "packages": [{"name": "nm-tool0", "ensure": "installed"}],
        "files": [{"path": "/etc/web/version", "content": f"{version}\n"}],
        "services": [{"name": "web", "ensure": "running", "enable": True, **subscribed, **service}],
    }


def test_what_somebody_changed_by_hand_is_put_back_by_the_next_pass(host: Host) -> None:
    host.api.config_set("web", host.name, **web("right"))
    host.converge("web")
    before = repaired(host)
    run = host.machine.run
    host.machine.write("/etc/web/version", "wrong\n", 0o600)
    run("dpkg", "--remove", "nm-tool0")
    run("systemctl", "disable", "--now", "web", check=False)  # the agent may be quicker, and cancel it
    host.look_again()
    until(lambda: host.is_active("web"), "the service to run again")
    until(lambda: host.shows("web", "UnitFileState") == "enabled", "the service to start at boot again")
    until(lambda: host.text("/run/web.seen") == "right\n", "the service to have seen the right file")
    assert host.text("/etc/web/version") == "right\n"
    status = ("dpkg-query", "-W", "-f", "${Status}", "nm-tool0")
    until(lambda: "ok installed" in run(*status, check=False).stdout, "the package")
    until(lambda: repaired(host) >= before + 3, "a report of the drifts")
    until(lambda: host.condition("Drifted") == "False", "the end of the drift")


def repaired(host: Host) -> int:
    """Return how many foreign changes the agent says it has undone."""
    return int((host.status().get("drift") or {}).get("repaired", 0))


def test_a_restart_that_is_owed_survives_the_agent_and_the_power(host: Host) -> None:
    host.api.config_set("web", host.name, **web("one", lock_group="turns"))
    host.converge("web")
    hold(host, "turns")
    host.api.config_set("web", host.name, **web("two", lock_group="turns"))
    until(lambda: host.text("/etc/web/version") == "two\n", "the new file")
    host.kill_agent()
    assert host.text("/run/web.seen") == "one\n"
    assert owed(host) == ["service:web"]
    host.machine.kill()
    host.machine.start()
    assert owed(host) == ["service:web"]
    release(host, "turns")
    until(lambda: not owed(host), "the restart", 120)
    host.converge("web")
    assert host.text("/run/web.seen") == "two\n"
    assert host.text("/var/log/web.starts").count("two") == 2  # by systemd at boot, and as was owed
    assert host.is_active("nodemanager")
    assert host.is_active("web")


def test_an_agent_that_is_told_to_look_again_while_it_starts_goes_on(host: Host) -> None:
    """For systemd, to die of SIGHUP is to end in order: nothing would start it again."""
    host.machine.run("systemctl", "restart", "nodemanager")
    started = host.shows("nodemanager", "MainPID")
    host.look_again()
    host.api.config_set("hangup", host.name, files=[{"path": "/etc/hangup", "content": started}])
    host.converge("hangup")
    assert host.shows("nodemanager", "MainPID") == started


def hold(host: Host, lock: str) -> None:
    """Take a lock in the name of another host."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    spec = {
        "holderIdentity": "another-host", "leaseDurationSeconds": 3600,
        "acquireTime": stamp, "renewTime": stamp,
    }  # fmt: skip
    host.api.apply(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": lock}, "spec": spec}
    )


def release(host: Host, lock: str) -> None:
    host.api.delete("Lease", lock)
    host.look_again()


def owed(host: Host) -> list[str]:
    """Return whom the agent owes something, as it has it on disk."""
    found = json.loads(host.text("/var/lib/nodemanager/pending.json") or "{}")
    return sorted(name for name in ("service:web", "exec:many/record") if name in json.dumps(found))


def many(version: str, number: int) -> dict[str, Any]:
    """Return a converge that takes a while and does a bit of everything."""
    files = [
        {"path": f"/etc/many/{n % 5}/{n}", "content": f"{version} {'x' * 4000}\n", "mode": "0640"}
        for n in range(FILES)
    ]
    files.append({"path": "/etc/many/version", "content": f"{version}\n"})
    return {
        "packages": [{"name": f"nm-tool{number}", "ensure": "installed"}],
        "files": files,
        "executions": [
            {"name": "record", "command": "/usr/local/bin/record", "subscribe_files": ["/etc/many/version"]}
        ],
    }


@pytest.mark.parametrize("number", range(ROUNDS))
def test_an_agent_that_is_killed_again_and_again_gets_there(host: Host, number: int) -> None:
    version = f"version-{number}"
    host.api.config_set("many", host.name, **many(version, number))
    chance = random.Random(number)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.4, 2.0))  # the point is not to know where it is
        host.kill_agent()
    host.converge("many")
    contents = host.machine.run("sh", "-c", "cat /etc/many/*/*").stdout
    assert contents == f"{version} {'x' * 4000}\n" * FILES
    assert f"nm-tool{number}" in host.machine.run("dpkg-query", "-W").stdout
    assert host.text("/var/log/record").splitlines().count(version) == 1
    # The agent goes on, and may be writing what it knows at this very moment; nothing that was begun stays.
    find = ("find", "/etc", "/var", "-xdev", "-name", ".nodemanager-*")
    until(lambda: host.machine.run(*find, check=False).stdout == "", "the end of what was staged")
    modes = host.machine.run("find", "/etc/many", "-mindepth", "2", "!", "-perm", "0640").stdout
    assert modes == ""
