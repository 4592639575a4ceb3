"""What is heard of units while somebody else works on them; a real systemd, within a bounded time."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.host_services import Services
from support.listener import Listener
from support.nspawn import Machine

UNIT = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


@contextlib.contextmanager
def listening(machine: Machine, name: str, **more: Any) -> Iterator[Listener]:
    """Watch a unit that runs and is enabled."""
    machine.write(f"/etc/systemd/system/{name}.service", UNIT)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "enable", "--now", name)
    listener = Listener(machine, services=[{"name": name}], **more)
    try:
        listener.wait(f"service:{name}")
        listener.quiet()
        yield listener
    finally:
        listener.close()


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(("systemctl", "stop", "{}"), id="stop"),
        pytest.param(("systemctl", "kill", "--signal=KILL", "{}"), id="kill"),
        pytest.param(("systemctl", "disable", "{}"), id="disable"),
        pytest.param(("rm", "/etc/systemd/system/multi-user.target.wants/{}.service"), id="unlink"),
        pytest.param(("ln", "-sf", "/dev/null", "/etc/systemd/system/{}.service"), id="mask"),
        pytest.param(("systemctl", "mask", "--runtime", "{}"), id="mask-runtime"),
        pytest.param(("sed", "-i", "s/infinity/99999/", "/etc/systemd/system/{}.service"), id="edit"),
        pytest.param(("install", "-D", "/dev/null", "/etc/systemd/system/{}.service.d/x.conf"), id="drop-in"),
    ],
)
def test_what_is_done_to_a_unit_is_heard(
    machine: Machine, argv: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    with listening(machine, name) as listener:
        began = time.time()
        machine.run(*(word.format(name) for word in argv))
        heard = listener.wait(f"service:{name}")
        assert heard["shortfalls"] == []
        sys.stdout.write(f"{name}: heard {(heard['at'] - began) * 1000:.0f} ms after it was begun\n")


def test_an_alias_leads_to_its_unit(machine: Machine) -> None:
    machine.write("/etc/systemd/system/first.service", UNIT + "Alias=second.service\n")
    machine.run("systemctl", "enable", "--now", "first")
    listener = Listener(machine, services=[{"name": "second"}])
    try:
        listener.wait("service:second")
        listener.quiet()
        machine.run("systemctl", "stop", "first")
        listener.wait("service:second")
    finally:
        listener.close()


def test_a_template_is_heard_of_by_its_files(machine: Machine) -> None:
    machine.write("/etc/systemd/system/many@.service", UNIT)
    machine.run("systemctl", "daemon-reload")
    listener = Listener(machine, services=[{"name": "many@"}])
    try:
        listener.wait("service:many@")
        listener.quiet()
        machine.run("sed", "-i", "s/infinity/99999/", "/etc/systemd/system/many@.service")
        listener.wait("service:many@")
    finally:
        listener.close()


@pytest.mark.parametrize("argv", [("systemctl", "daemon-reexec"), ("systemctl", "restart", "dbus")])
def test_who_is_replaced_is_listened_to_again(machine: Machine, argv: tuple[str, ...]) -> None:
    name = f"stays-{argv[-1]}"
    with listening(machine, name) as listener:
        machine.run(*argv)
        listener.wait(f"service:{name}")
        listener.quiet(1.5)
        machine.run("systemctl", "stop", name)
        assert listener.wait(f"service:{name}")["shortfalls"] == []


def test_a_storm_of_reloads_says_nothing_new(machine: Machine) -> None:
    with listening(machine, "calm") as listener:
        for _ in range(10):
            machine.run("systemctl", "daemon-reload")
        assert listener.said(1.0) == []
        machine.run("systemctl", "stop", "calm")
        listener.wait("service:calm")


def test_without_a_bus_systemd_itself_is_listened_to(machine: Machine) -> None:
    machine.run("systemctl", "stop", "dbus.socket", "dbus.service")
    try:
        with listening(machine, "direct") as listener:
            machine.run("systemctl", "stop", "direct")
            assert listener.wait("service:direct")["shortfalls"] == []
    finally:
        machine.run("systemctl", "start", "dbus.socket", "dbus.service")


def test_packages_and_interfaces_are_heard_of(machine: Machine) -> None:
    with listening(machine, "other", packages=[{"name": "hello"}]) as listener:
        machine.run(
            "sh", "-c", "cp /var/lib/dpkg/status /var/lib/dpkg/new; mv /var/lib/dpkg/new /var/lib/dpkg/status"
        )
        listener.wait("package:hello")
        listener.quiet()
        machine.run("ip", "link", "add", "dummy7", "type", "dummy", check=False)
        machine.run("ip", "address", "add", "192.0.2.7/32", "dev", "lo")
        listener.wait_for(lambda line: line["inventory"], "the inventory")


def test_a_user_manager_that_comes_up_is_listened_to(machine: Machine) -> None:
    machine.run("useradd", "--create-home", "--uid", "1000", "bob")
    machine.write("/home/bob/.config/systemd/user/mine.service", UNIT.replace("multi-user", "default"))
    listener = Listener(machine, services=[{"name": "mine", "user": "bob"}], files=[{"path": "/motd"}])
    try:
        listener.wait("file:/motd")
        machine.run("loginctl", "enable-linger", "bob")
        machine.run("systemctl", "start", "user@1000.service")
        heard = listener.wait("service:bob/mine")
        while heard["shortfalls"]:
            heard = listener.wait("service:bob/mine")
        listener.quiet()
        assert Services(machine).do("start", "mine", "bob") == ""
        listener.wait("service:bob/mine")
        listener.quiet()
        assert Services(machine).do("stop", "mine", "bob") == ""
        listener.wait("service:bob/mine")
    finally:
        listener.close()
