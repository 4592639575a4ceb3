"""The machines themselves: what a test of a host relies on."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path

import pytest

from support.nspawn import Failed, Machine

BOOTED = ("systemctl", "show", "--property=UserspaceTimestampMonotonic")
"""By the clock of this machine; numbers of namespaces may come back at once."""


def test_power_loss_keeps_what_was_written_and_nothing_else(machine: Machine) -> None:
    machine.write("/var/lib/kept", "kept")
    machine.write("/run/lost", "lost")
    before = machine.run(*BOOTED).stdout
    machine.kill()
    with pytest.raises(Failed, match="is off"):
        machine.run("true")
    machine.start()
    assert machine.read("/var/lib/kept") == "kept"
    assert machine.run("test", "-e", "/run/lost", check=False).returncode != 0
    assert machine.run(*BOOTED).stdout != before


def test_a_failed_command_says_what_it_said(machine: Machine) -> None:
    with pytest.raises(Failed, match=r"(?s)failed in .* with 3:\nsorry"):
        machine.run("sh", "-c", "echo sorry; exit 3")
    with pytest.raises(Failed, match=r"did not finish within 0\.2 s"):
        machine.run("sleep", "5", timeout=0.2)


def test_machines_are_apart_and_leave_nothing_behind() -> None:
    apart = f"nm-apart-{secrets.token_hex(3)}"
    with Machine.boot(f"{apart}-a") as a, Machine.boot(f"{apart}-b") as b:
        a.write("/etc/mark", "a")
        assert b.run("cat", "/etc/mark", check=False).returncode != 0
        assert b.run("hostname").stdout == f"{apart}-b\n"
        folders = [a.root.parent, b.root.parent]
        a.shut_down()
        b.copy(Path(__file__), "/srv/copied.py")
        assert "leave_nothing_behind" in b.read("/srv/copied.py")
    assert not any(folder.exists() for folder in folders)
    assert apart not in Path("/proc/mounts").read_text()
    assert apart not in subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout


def test_a_machine_in_a_network_namespace() -> None:
    name = f"nm-test-{secrets.token_hex(3)}"
    subprocess.run(["ip", "netns", "add", name], check=True, timeout=60)
    try:
        subprocess.run(["ip", "-n", name, "addr", "add", "192.0.2.7/32", "dev", "lo"], check=True, timeout=60)
        with Machine.boot(network=f"/run/netns/{name}") as machine:
            assert "192.0.2.7" in machine.run("ip", "addr").stdout
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True, timeout=60)
