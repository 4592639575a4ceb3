"""Operator and server as services of real init systems: without rights, and as useful as with them."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fleet import MANAGER, check_manager, until
from support.nspawn import Machine
from support.openrc_machine import OpenRCMachine

PROGRAM = '#!/bin/sh\nPYTHONPATH=/opt/src:/opt/site exec /usr/bin/python3 -m nodemanager "$@"\n'
"""With the embedded API, which bin/manager lacks."""
NOBODY_THERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "x", "user": {"token": "x"}}],
}
READY = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8083/readyz').read().decode())"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    check_manager()
    binds = {Path(sysconfig.get_path("purelib")): "/opt/site", Path(__file__).parents[2] / "src": "/opt/src"}
    with Machine.boot(packages=("openrc",), binds=binds) as machine:
        machine.copy(MANAGER, "/usr/local/bin/nodemanager")
        machine.write("/usr/local/bin/nodemanager-whole", PROGRAM, 0o755)
        yield machine


def shows(machine: Machine, unit: str, what: str) -> str:
    return machine.run("systemctl", "show", unit, "--property", what, "--value").stdout.strip()


def test_an_operator_and_its_api_are_services_of_systemd(machine: Machine) -> None:
    run = machine.run
    said = run(
        "nodemanager-whole", "install-service", "server", "--exec", "/usr/local/bin/nodemanager-whole"
    ).stdout
    assert said.endswith("\nstarted\n")
    data = "/var/lib/nodemanager-server"
    until(lambda: run("test", "-e", f"{data}/admin.kubeconfig", check=False).returncode == 0, "the server")
    run("mkdir", "--parents", "/etc/nodemanager")
    run("install", "-m", "0600", f"{data}/admin.kubeconfig", "/etc/nodemanager/operator.kubeconfig")
    said = run("nodemanager", "install-service", "operator", "--", "--log-level", "debug").stdout
    assert said.endswith("\nstarted\n")
    until(lambda: run("python3", "-c", READY, check=False).stdout == "ok\n", "an operator that is ready")
    for unit in ("nodemanager-server", "nodemanager-operator"):
        verified = run("systemd-analyze", "verify", f"/etc/systemd/system/{unit}.service")
        assert verified.stdout + verified.stderr == ""
        status = machine.read(f"/proc/{shows(machine, unit, 'MainPID')}/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert "0" not in fields["Uid"].split()
        assert set(fields["CapBnd"].strip()) == {"0"}
        assert fields["NoNewPrivs"] == "1"
    run("nodemanager-whole", "server", "backup", "--data-dir", data, "/root/backup")
    run("systemctl", "stop", "nodemanager-server")
    until(lambda: run("python3", "-c", READY, check=False).stdout != "ok\n", "an operator that says so")
    run("nodemanager-whole", "server", "restore", "--data-dir", data, "/root/backup")
    run("systemctl", "start", "nodemanager-server")
    until(lambda: run("python3", "-c", READY, check=False).stdout == "ok\n", "an operator that is back")
    for service in ("operator", "server"):
        assert "stopped\n" in run("nodemanager", "install-service", service, "--uninstall").stdout
    assert run("test", "-e", f"{data}/state.db", check=False).returncode == 0


def test_an_operator_is_a_service_of_openrc(machine: Machine) -> None:
    openrc, run = OpenRCMachine.on(machine), machine.run
    # A host has one of the two: what systemd keeps for a user that it makes up is closed to all others.
    openrc.run("rm", "-rf", "/var/cache/nodemanager-operator", "/var/cache/private")
    machine.write("/etc/nodemanager/operator.kubeconfig", json.dumps(NOBODY_THERE), 0o600)
    said = openrc.run("nodemanager", "install-service", "operator").stdout
    command = "useradd --system --no-create-home --shell /sbin/nologin nodemanager-operator"
    assert f"not started: there is no user nodemanager-operator; run {command}" in said
    openrc.run(*command.split())
    assert openrc.run("nodemanager", "install-service", "operator").stdout.endswith("\nstarted\n")
    log = "/var/log/nodemanager-operator.log"
    until(lambda: "waiting for the API" in run("cat", log, check=False).stdout, "an operator at work")
    pid = openrc.run("pgrep", "-u", "nodemanager-operator", "-f", "__main__.py operator").stdout.strip()
    assert pid
    assert "stopped\n" in openrc.run("nodemanager", "install-service", "operator", "--uninstall").stdout
    assert openrc.run("pgrep", "-u", "nodemanager-operator", check=False).stdout == ""
