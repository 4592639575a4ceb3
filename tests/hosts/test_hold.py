"""A real host that is held by root: files, services and runs stay as they are, across a power cut, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.fleet import until
from support.source_host import SourceHost, unit

SERVICE = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"
FILES = [{"path": "/etc/motd", "content": "one\n"}]
SPEC: dict[str, Any] = {
    "files": FILES,
    "services": [{"name": "app", "ensure": "running", "enable": True}],
    "executions": [
        {"command": "sh", "args": ["-c", "cat /etc/motd >> /var/log/runs"], "subscribe_files": ["/etc/motd"]}
    ],
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceHost]:
    with SourceHost.up(tmp_path_factory.mktemp("host"), "held1") as host:
        host.machine.write("/etc/systemd/system/app.service", SERVICE)
        host.enroll(unit())
        host.api.config_set("base", host.name, **SPEC)
        host.converge("base")
        yield host


def test_nothing_changes_on_a_held_host_and_all_that_waited_is_done(host: SourceHost) -> None:
    done = host.nodemanager("hold", "--reason", "replacing a disk", "--for", "1h")
    assert "this host is held until" in done.stdout
    until(lambda: host.condition("Held") == "True", "the API hears of it")
    host.machine.run("systemctl", "stop", "app")
    host.machine.write("/etc/motd", "by hand\n")
    two = {**SPEC, "files": [*FILES, {"path": "/etc/new", "content": "x\n"}]}
    host.api.config_set("base", host.name, **two)
    until(lambda: host.status().get("drift", {}).get("observed", 0) >= 2, "both drifts are counted")
    until(lambda: [one.get("held") for one in host.status()["configsets"]] == [3], "all of it waits")
    host.machine.kill()
    host.machine.start()
    until(lambda: held(host), "held after the boot")
    host.look_again()
    until(lambda: host.condition("Ready") == "False", "something waits")
    assert host.text("/etc/motd") == "by hand\n"
    assert host.machine.run("test", "-e", "/etc/new", check=False).returncode != 0
    assert host.text("/var/log/runs") == "one\n"
    assert "not held any more" in host.nodemanager("unhold").stdout
    host.converge("base")
    until(lambda: host.text("/var/log/runs") == "one\none\n", "the run that the repair makes owed")
    assert host.text("/etc/motd") == "one\n"
    assert host.is_active("app")
    until(lambda: host.condition("Held") == "False", "the API hears of that, too")


def held(host: SourceHost) -> bool:
    return "Held:" in host.nodemanager("status", check=False).stdout
