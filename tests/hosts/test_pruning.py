"""On a real host: a set that gives things up takes back its service, its unit, its changes, its package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fleet import Fleet, apt_repository, until

UNIT = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with apt_repository(tmp_path_factory.mktemp("apt") / "apt") as repository:
        repository.publish("nm-app", "1.0-1")
        with Fleet.up(tmp_path_factory.mktemp("fleet"), "alpha", repository=repository.repo) as found:
            found["alpha"].machine.run("apt-get", "update")
            found["alpha"].join()
            yield found


def test_a_set_takes_back_what_it_gives_up_also_if_the_agent_is_off(fleet: Fleet) -> None:
    host = fleet["alpha"]
    for name in ("GRACE", "CONFIRM"):
        host.machine.run("systemctl", "set-environment", f"NODEMANAGER_CONFIGSET_PRUNE_{name}=0s")
    motd = host.text("/etc/motd")
    assert motd
    fleet.api.config_set("keep", host.name, files=[{"path": "/etc/keep", "content": "kept"}])
    fleet.api.config_set(
        "web", host.name, prune=True, prunePackages=True,
        packages=[{"name": "nm-app"}],
        files=[
            {"path": "/etc/systemd/system/web.service", "content": UNIT},
            {"path": "/etc/motd", "content": "ours"},
        ],
        services=[{"name": "web", "ensure": "running", "enable": True}],
    )  # fmt: skip
    host.converge("web")
    assert host.is_active("web")
    host.machine.run("systemctl", "stop", "nodemanager")
    fleet.api.config_set(
        "web", host.name, packages=[], services=[], files=[{"path": "/etc/still", "content": "x"}]
    )
    host.machine.run("systemctl", "start", "nodemanager")
    until(lambda: "nm-app" not in host.machine.run("dpkg-query", "-W").stdout, "the end of the package")
    assert host.text("/etc/motd") == motd
    assert host.text("/etc/systemd/system/web.service") == ""
    assert not host.is_active("web")
    enabled = "/etc/systemd/system/multi-user.target.wants/web.service"
    assert host.machine.run("test", "-L", enabled, check=False).returncode != 0
    assert host.text("/etc/keep") == "kept"
    until(lambda: "orphans" not in host.status(), "a report without orphans")
    assert "nothing is left behind" in host.machine.run("nodemanager", "orphans").stderr
