"""The systemd adapter, in a machine whose bus comes and goes."""

from __future__ import annotations

from support.host_services import Services
from support.nspawn import Machine

UNIT = "[Service]\nExecStart=/bin/sleep infinity\n"


def test_the_bus_itself_is_restarted(machine: Machine) -> None:
    services = Services(machine)
    assert services.do("restart", "dbus") == ""
    assert services.look("dbus").running is True


def test_without_a_bus_systemd_is_asked_directly(machine: Machine) -> None:
    services = Services(machine)
    machine.write("/etc/systemd/system/direct.service", UNIT)
    machine.run("systemctl", "stop", "dbus.socket", "dbus.service")
    try:
        assert services.do("start", "direct") == ""
        assert services.look("direct").running is True
        assert services.look("dbus").running is False
    finally:
        machine.run("systemctl", "start", "dbus.socket", "dbus.service")
