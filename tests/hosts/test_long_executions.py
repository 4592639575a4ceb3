"""A real host on which one ConfigSet takes long, or has to wait: everything else of the host goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.fleet import LONG, Fleet, Host, until

SERVICE = "[Service]\nExecStart=/bin/sleep inf\n"
RUN = {"command": "/usr/local/bin/long", "timeout": "10m", "subscribe_files": ["/etc/long"]}


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host with two services and a program of its own."""
    with Fleet.up(tmp_path_factory.mktemp("fleet"), "web") as fleet:
        machine = fleet["web"].machine
        machine.write("/usr/local/bin/long", LONG, 0o755)
        for name in ("mine", "other"):
            machine.write(f"/etc/systemd/system/{name}.service", SERVICE)
        fleet["web"].join()
        yield fleet


@pytest.fixture
def host(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host; what its agent wrote is printed when a test fails."""
    with shared_fleet.watched(request) as fleet:
        yield fleet["web"]


def long(content: str, **more: Any) -> dict[str, Any]:
    """Return a file, a service, and a program that runs when the file changes."""
    return {
        "files": [{"path": "/etc/long", "content": content}],
        "services": [{"name": "mine", "ensure": "running"}],
        "executions": [RUN],
        **more,
    }


def other(content: str) -> dict[str, Any]:
    return {
        "files": [{"path": "/etc/other", "content": content}],
        "services": [{"name": "other", "ensure": "running", "subscribe_files": ["/etc/other"]}],
    }


def told(host: Host, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    found = {one["type"]: (one["status"], one["reason"]) for one in host.status().get("conditions", [])}
    return found.get(kind, ("", ""))


def runs(host: Host) -> list[str]:
    return host.text("/run/long").split()


def is_over(host: Host, times: int) -> None:
    """Let the program end, and the host settle; what the status says before is of another time."""
    host.machine.write("/run/go-on", "")
    until(lambda: runs(host) == ["began", "ended"] * times, f"{times} ends of the program")
    host.converge("long")
    until(lambda: told(host, "Progressing") == ("False", "Applied"), "the end of the program in the status")
    until(lambda: told(host, "Ready") == ("True", "Applied"), "a host that is ready")
    assert runs(host) == ["began", "ended"] * times


def test_a_long_execution_holds_up_nothing_but_its_own_set(host: Host) -> None:
    host.api.config_set("other", host.name, **other("one"))
    host.converge("other")
    assert told(host, "Ready") == ("True", "Applied")
    host.machine.run("rm", "-f", "/run/go-on", "/run/long")
    host.api.config_set("long", host.name, **long("one"))
    until(lambda: runs(host) == ["began"], "the program")
    until(lambda: "is running" in host.entry("long").get("waiting", ""), "word of the program")
    assert told(host, "Progressing") == ("True", "Applying")
    assert told(host, "Ready") == ("False", "Applying")

    # Another set: a file and the restart that it owes, and what somebody does to it.
    before = host.shows("other", "ExecMainPID")
    host.api.config_set("other", host.name, **other("two"))
    host.converge("other")
    until(lambda: host.shows("other", "ExecMainPID") not in ("0", before), "the restart of the other service")
    host.machine.write("/etc/other", "drift")
    until(lambda: host.text("/etc/other") == "two", "the repair of the other file")
    host.machine.run("systemctl", "stop", "other")
    until(lambda: host.is_active("other"), "the repair of the other service")

    # Its own set: left alone until the program has ended.
    host.machine.run("systemctl", "stop", "mine")
    host.api.config_set("long", host.name, **long("two"))
    until(lambda: host.entry("long"), "word of the new generation")
    assert host.text("/etc/long") == "one"
    assert not host.is_active("mine")
    assert runs(host) == ["began"]

    # A failure is told although the program still runs.
    host.machine.run("mkdir", "-p", "/etc/a-directory")
    host.api.config_set("bad", host.name, files=[{"path": "/etc/a-directory", "content": "x"}])
    until(lambda: told(host, "Ready") == ("False", "ApplyFailed"), "word of the failure")
    assert told(host, "Progressing") == ("True", "Applying")
    assert runs(host) == ["began"]
    host.api.delete("ConfigSet", "bad")

    is_over(host, 2)  # once more, for the new content
    assert host.text("/etc/long") == "two"
    assert host.is_active("mine")


def test_an_agent_that_is_restarted_meanwhile_does_everything_else(host: Host) -> None:
    host.machine.run("rm", "-f", "/run/go-on", "/run/long")
    host.api.config_set("long", host.name, **long("three"))
    until(lambda: runs(host) == ["began"], "the program")
    # It does not wait for the program: systemd would end it after a minute and a half.
    host.machine.run("timeout", "60", "systemctl", "stop", "nodemanager")
    host.api.config_set("other", host.name, **other("three"))
    host.machine.run("systemctl", "start", "nodemanager")
    until(lambda: host.text("/etc/other") == "three", "the other file")
    assert runs(host) == ["began"]
    is_over(host, 1)


def test_a_service_does_not_start_before_its_file_that_waits_for_a_secret(host: Host) -> None:
    """The program of this service ends at once without its file: started too early, it would run in vain."""
    host.machine.write(
        "/etc/systemd/system/late.service", "[Service]\nExecStart=/usr/bin/tail -f /etc/late.conf\n"
    )
    template = "{{ index .Node.Secrets `password` | base64.Decode }}\n"
    host.api.config_set(
        "late",
        host.name,
        files=[{"path": "/etc/late.conf", "template": template, "secretRefs": ["late"]}],
        services=[{"name": "late", "ensure": "running"}],
    )
    until(lambda: "Secret late" in host.entry("late").get("waiting", ""), "word of what is waited for")
    assert not host.entry("late").get("error")
    assert told(host, "Ready") == ("False", "Waiting")
    assert host.shows("late", "ExecMainStartTimestampMonotonic") == "0"
    host.api.secret("late", password="geheim")
    host.converge("late")
    assert host.text("/etc/late.conf") == "geheim\n"
    assert host.is_active("late")
    assert host.shows("late", "NRestarts") == "0"
