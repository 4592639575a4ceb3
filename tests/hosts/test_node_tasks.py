"""Tasks on a real host: an upgrade that is proven, or taken back; a service; a reboot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support import fleet_tasks
from support.fleet import Fleet, Host, apt_repository
from support.package_roots import AptRoot

SERVICE = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"
UNIT = {"/lib/systemd/system/app.service": SERVICE}
SECONDS = 120.0


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """A repository with two versions of an application, the second of which needs one more package."""
    with apt_repository(tmp_path_factory.mktemp("apt") / "apt") as found:
        found.publish("app", "1.0", files=UNIT)
        found.publish("lib", "1.0")
        yield found


@pytest.fixture(scope="module")
def shared_fleet(repository: AptRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host that runs the first version."""
    with Fleet.up(tmp_path_factory.mktemp("fleet"), "web", repository=repository.repo) as fleet:
        machine = fleet["web"].machine
        machine.run("apt-get", "update")
        machine.run("apt-get", "install", "-y", "app", "lib")
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "enable", "--now", "app")
        fleet["web"].join()
        repository.publish("extra", "1.0")
        repository.publish("app", "2.0", files=UNIT, needs="extra")
        repository.publish("lib", "2.0")
        yield fleet


@pytest.fixture
def host(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host with the first versions; what its agent wrote is printed when a test fails."""
    with shared_fleet.watched(request) as fleet:
        run = fleet["web"].machine.run
        run("apt-get", "install", "-y", "--allow-downgrades", "app=1.0", "lib=1.0")
        run("apt-get", "purge", "-y", "extra", check=False)
        yield fleet["web"]


def give(host: Host, *steps: dict[str, Any]) -> str:
    """Give a host a task, as the operator does, and return its name."""
    return fleet_tasks.give(host.api, host.name, *steps)


def ended(host: Host, name: str) -> dict[str, Any]:
    """Wait until a task has ended, and return its status."""
    return fleet_tasks.ended(host.api, name, SECONDS)


def do(host: Host, *steps: dict[str, Any]) -> dict[str, Any]:
    """Have a host do a task, and return its status."""
    return ended(host, give(host, *steps))


def versions(host: Host) -> dict[str, str]:
    form = "--showformat=${Package} ${Version} ${db:Status-Abbrev}\n"
    said = host.machine.run("dpkg-query", "--show", form, "app", "lib", "extra", check=False).stdout
    rows = [line.split() for line in said.splitlines()]
    return {row[0]: row[1] for row in rows if row[-1] in ("ii", "hi")}


def phases(status: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["phase"] for one in status["steps"]}


UPGRADE = {"name": "upgrade", "packages": {"upgrade": "all"}, "timeout": "10m"}


def test_a_preview_tells_what_apt_would_do(host: Host) -> None:
    status = do(host, {"name": "plan", "preview": {"packages": "all"}})
    assert status["phase"] == "Succeeded", status
    assert status["steps"][0]["evidence"] == {"app": "1.0 -> 2.0", "lib": "1.0 -> 2.0"}
    security = do(host, {"name": "plan", "preview": {"packages": "security"}})
    assert security["steps"][0]["output"] == "0 packages would be upgraded\n"
    assert versions(host) == {"app": "1.0", "lib": "1.0"}


def test_an_upgrade_whose_probe_fails_is_taken_back(host: Host, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: host.machine.run("apt-mark", "unhold", "lib"))
    host.machine.run("apt-mark", "hold", "lib")
    probe = {"name": "prove", "probe": {"argv": ["false"]}, "timeout": "1s", "onFailure": "undo"}
    status = do(host, UPGRADE, probe)
    assert status["phase"] == "Undone", status
    assert phases(status) == {"upgrade": "Undone", "prove": "Failed"}
    assert status["steps"][0]["evidence"] == {"app": "1.0 -> 2.0", "extra": "-> 1.0"}
    assert versions(host) == {"app": "1.0", "lib": "1.0"}


def test_an_upgrade_a_restart_and_a_reboot(host: Host) -> None:
    before = host.machine.read("/proc/sys/kernel/random/boot_id").strip()
    name = give(
        host, UPGRADE,
        {"name": "restart", "service": {"name": "app", "do": "restart"}},
        {"name": "reboot", "reboot": {"when": "always"}, "timeout": "5m"},
        {"name": "runs", "probe": {"unit": "app"}, "timeout": "2m"},
        {"name": "holds", "probe": {"configSetsHold": True}, "timeout": "2m"},
    )  # fmt: skip
    host.machine.follow_reboot(SECONDS)
    status = ended(host, name)
    assert status["phase"] == "Succeeded", status
    assert set(phases(status).values()) == {"Succeeded"}
    now = host.machine.read("/proc/sys/kernel/random/boot_id").strip()
    evidence = {one["name"]: one.get("evidence") for one in status["steps"]}
    assert evidence["reboot"] == {"bootBefore": before, "bootAfter": now}
    assert before != now
    assert [one["attempts"] for one in status["steps"]] == [1] * 5
    assert versions(host) == {"app": "2.0", "lib": "2.0", "extra": "1.0"}
