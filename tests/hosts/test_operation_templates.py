"""Shipped templates on a real host: their steps as tasks, their declarations as ConfigSets."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from nodemanager.fleet.maintenance import steps
from support.fleet import Fleet, Host, apt_repository, until
from support.host_tasks import do
from support.package_roots import AptRoot
from support.template_scripts import operation, shipped

SERVICE = "[Service]\nExecStart=/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n"
UNIT = {"/lib/systemd/system/app.service": SERVICE}
SECONDS = 240.0
SSHD = "/etc/ssh/sshd_config.d/10-nodemanager-hardening.conf"
SYSCTL = "/etc/sysctl.d/60-nodemanager-hardening.conf"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """A repository with an application."""
    with apt_repository(tmp_path_factory.mktemp("apt") / "apt") as found:
        found.publish("app", "1.0", files=UNIT)
        yield found


@pytest.fixture(scope="module")
def shared_fleet(repository: AptRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host that runs the first version of it, where a second one is offered."""
    with Fleet.up(tmp_path_factory.mktemp("fleet"), "web", repository=repository.repo) as fleet:
        machine = fleet["web"].machine
        machine.run("apt-get", "update")
        machine.run("apt-get", "install", "-y", "app")
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "enable", "--now", "app")
        fleet["web"].join()
        repository.publish("app", "2.0", files=UNIT)
        yield fleet


@pytest.fixture
def host(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The host; what its agent wrote is printed when a test fails."""
    with shared_fleet.watched(request) as fleet:
        yield fleet["web"]


@pytest.fixture
def declared(host: Host) -> Iterator[list[str]]:
    """Names of ConfigSets that are deleted afterwards."""
    names: list[str] = []
    yield names
    for name in names:
        host.api.delete("ConfigSet", name)


def declare(host: Host, declared: list[str], template: str, **parameters: str) -> None:
    """Have a host hold what a template declares."""
    declared.append(template)
    wanted = steps.config_set_of(operation(template, parameters), shipped())
    host.api.apply(
        {
            "apiVersion": "common.nodemanager/v1",
            "kind": "ConfigSet",
            "metadata": {"name": template, "labels": {"kubernetes.io/hostname": host.name}},
            "spec": msgspec.to_builtins(wanted),
        }
    )


def test_package_upgrade(host: Host) -> None:
    host.machine.run("apt-get", "install", "-y", "--allow-downgrades", "app=1.0")
    status = do(host, "package-upgrade", unit="app")
    assert status["phase"] == "Succeeded", status
    upgrade, holds, serving = status["steps"]
    assert upgrade["evidence"]["app"] == "1.0 -> 2.0"
    assert (holds["phase"], serving["phase"]) == ("Succeeded", "Succeeded")


def test_reboot_if_needed_when_it_is_not(host: Host) -> None:
    before = host.machine.read("/proc/sys/kernel/random/boot_id")
    status = do(host, "reboot-if-needed", unit="app")
    assert status["phase"] == "Succeeded", status
    assert status["steps"][0]["evidence"] == {"reboot": "not needed"}
    assert host.machine.read("/proc/sys/kernel/random/boot_id") == before


def test_cleaning_up(host: Host) -> None:
    journal = do(host, "journal-cleanup", maxSize="100M", maxAge="1h")
    assert journal["phase"] == "Succeeded", journal
    assert "journals take up" in journal["steps"][0]["output"]
    kernels = do(host, "kernel-cleanup", dryRun="true")
    assert kernels["phase"] == "Succeeded", kernels
    assert "no old kernel to remove" in kernels["steps"][0]["output"]


def test_disks_of_a_container_are_not_its_own(host: Host) -> None:
    trimmed = do(host, "fstrim")["steps"][0]
    assert "trim" in trimmed["output"]
    assert trimmed.get("exitCode", 0) in (0, 32, 64)
    checked = do(host, "smart-check")
    assert checked["phase"] == "Failed", checked
    assert checked["steps"][0]["exitCode"] == 69
    assert "cannot check disks: there is no smartctl; install smartmontools" in checked["steps"][0]["output"]


def test_what_is_missing_or_not_safe_is_refused(host: Host) -> None:
    for template, said in (
        ("kairos-upgrade", "this host is not a Kairos"),
        ("image-cleanup", "none of k3s, crictl, docker and podman is on this host"),
    ):
        image = {"image": "quay.io/k/d@sha256:" + "0" * 64} if template == "kairos-upgrade" else {}
        status = do(host, template, **image)
        assert (status["phase"], status["steps"][0]["exitCode"]) == ("Failed", 69)
        assert said in status["steps"][0]["output"]
        assert not [one for one in status["steps"][1:] if one.get("phase") == "Succeeded"]


def test_sshd_hardening_is_approved_kept_and_loaded(host: Host, declared: list[str]) -> None:
    """There is no sshd in the machine: a script stands for it, which notes what it is shown."""
    machine = host.machine
    machine.write(
        "/usr/sbin/sshd", '#!/bin/sh\necho "$*" >>/run/sshd-asked\ngrep -q "Login no$" "$3"\n', 0o755
    )
    machine.write("/etc/ssh/sshd_config", "Port 22\n")
    machine.run("mkdir", "-p", "/etc/ssh/sshd_config.d")
    declare(host, declared, "sshd-hardening", permitRootLogin="no")
    assert "has no line 'Include" in host.error("sshd-hardening")
    machine.write("/etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\n")
    host.look_again()
    host.converge("sshd-hardening")
    assert "PasswordAuthentication no\n" in host.text(SSHD)
    assert "-t -f" in machine.read("/run/sshd-asked")
    machine.write(SSHD, "PermitRootLogin yes\n", 0o600)
    until(lambda: "PermitRootLogin no\n" in host.text(SSHD), "the repair")


def test_sysctl_hardening(host: Host, declared: list[str]) -> None:
    """A container may not set anything of the kernel, and says so; the file is for a kernel of its own."""
    declare(host, declared, "sysctl-hardening", rpFilter="1")
    assert "cannot set net.ipv6.conf.default.accept_redirects to 0" in host.error("sysctl-hardening")
    assert "net.ipv4.conf.default.rp_filter = 1\n" in host.text(SYSCTL)
