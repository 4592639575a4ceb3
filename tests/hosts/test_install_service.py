"""install-service on real hosts: systemd as it runs, and the real OpenRC of Debian."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from support.fleet import LONG, MANAGER, Fleet, Host, check_manager, until
from support.nspawn import Machine
from support.openrc_machine import OpenRCMachine

UNIT = "/etc/systemd/system/nodemanager.service"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "x", "user": {"token": "x"}}],
}
"""Nobody is there; the agent waits for somebody."""
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host with the program, and no service yet."""
    with Fleet.up(tmp_path_factory.mktemp("service"), "web") as fleet:
        fleet["web"].machine.copy(MANAGER, "/usr/local/bin/nodemanager")
        yield fleet


@pytest.fixture
def host(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Host]:
    with shared_fleet.watched(request) as fleet:
        fleet["web"].machine.run("nodemanager", "install-service", "--uninstall")
        yield fleet["web"]


def test_a_service_of_systemd_lives_through_everything(host: Host) -> None:
    run = host.machine.run
    run("rm", "--recursive", "--force", "/etc/nodemanager")
    said = run("nodemanager", "install-service").stdout
    assert f"wrote {UNIT}\n" in said
    assert "not started: there is no /etc/nodemanager/kubeconfig; run nodemanager bootstrap" in said
    verified = run("systemd-analyze", "verify", UNIT)
    assert verified.stdout + verified.stderr == ""
    run("systemctl", "start", "nodemanager")  # a condition that is not met is no failure
    assert host.shows("nodemanager", "ActiveState") == "inactive"
    host.bootstrap()
    assert run("nodemanager", "install-service").stdout.endswith("\nstarted\n")
    assert host.shows("nodemanager", "UnitFileState") == "enabled"
    host.api.config_set("motd", host.name, files=[{"path": "/etc/motd.service", "content": "hello\n"}])
    host.converge("motd")
    first = host.shows("nodemanager", "MainPID")
    assert run("nodemanager", "install-service").stdout.endswith("\nruns already, and nothing has changed\n")
    assert host.shows("nodemanager", "MainPID") == first
    run("kill", "-KILL", first)
    until(lambda: host.shows("nodemanager", "MainPID") not in ("0", first), "the agent to be back by itself")


def test_flags_restart_the_agent_and_nothing_that_it_runs(host: Host) -> None:
    run = host.machine.run
    host.bootstrap()
    run("nodemanager", "install-service")
    host.machine.write("/usr/local/bin/long", LONG, 0o755)
    execution = {"command": "/usr/local/bin/long", "subscribe_files": ["/etc/long.conf"]}
    files = [{"path": "/etc/long.conf", "content": "1\n"}]
    host.api.config_set("long", host.name, files=files, executions=[execution])
    until(lambda: "began" in host.text("/run/long"), "the execution")
    said = run("nodemanager", "install-service", "--", "--log-level", "debug", timeout=120).stdout
    assert said.endswith("\nrestarted\n")
    run("touch", "/run/go-on")
    until(lambda: "ended" in host.text("/run/long"), "the end of the execution")
    host.converge("long")
    assert host.text("/run/long") == "began\nended\n"
    assert host.text("/etc/default/nodemanager").endswith('\nNODEMANAGER_LOG_LEVEL="debug"\n')
    environment = run(
        "sh", "-c", f"tr '\\0' '\\n' < /proc/{host.shows('nodemanager', 'MainPID')}/environ"
    ).stdout
    assert "NODEMANAGER_LOG_LEVEL=debug\n" in environment
    run("nodemanager", "install-service", "--uninstall")
    assert host.shows("nodemanager", "LoadState") == "not-found"
    assert host.text("/etc/nodemanager/kubeconfig") != ""


def test_a_wrong_flag_is_not_tried_again_and_again(host: Host) -> None:
    run = host.machine.run
    host.bootstrap()
    run("nodemanager", "install-service", "--no-start")
    run("sh", "-c", "echo NODEMANAGER_LOG_LEVEL=loud > /etc/default/nodemanager")
    run("systemctl", "start", "nodemanager", check=False)
    until(lambda: host.shows("nodemanager", "ActiveState") == "failed", "the failure")
    assert host.shows("nodemanager", "ExecMainStatus") == "2"
    run("rm", "/etc/default/nodemanager")
    run("systemctl", "reset-failed", "nodemanager")


@pytest.fixture(scope="module")
def openrc() -> Iterator[OpenRCMachine]:
    check_manager()
    with Machine.boot(packages=("openrc",)) as machine:
        machine.copy(MANAGER, "/usr/local/bin/nodemanager")
        yield OpenRCMachine.on(machine)


def pid_of_agent(host: OpenRCMachine) -> str:
    return host.run("pgrep", "-f", "__main__.py --kubeconfig", check=False).stdout.strip()


def test_a_service_of_openrc_lives_through_everything(openrc: OpenRCMachine) -> None:
    said = openrc.run("nodemanager", "install-service").stdout
    assert "wrote /etc/init.d/nodemanager\n" in said
    assert said.endswith("then rc-service nodemanager start\n")
    openrc.machine.write("/etc/nodemanager/kubeconfig", json.dumps(KUBECONFIG), 0o600)
    said = openrc.run("nodemanager", "install-service", "--", "--log-level", "debug").stdout
    assert said.endswith("\nstarted\n")
    assert "nodemanager" in openrc.run("rc-update", "show", "default").stdout
    until(lambda: pid_of_agent(openrc), "the agent")
    first = pid_of_agent(openrc)
    assert "NODEMANAGER_LOG_LEVEL=debug\0" in openrc.machine.read(f"/proc/{first}/environ")
    until(lambda: "SIGHUP" in ignored_or_caught(openrc, first), "the agent to listen")
    openrc.run("rc-service", "nodemanager", "reload")
    assert pid_of_agent(openrc) == first
    openrc.run("kill", "-KILL", first)
    until(lambda: pid_of_agent(openrc) not in ("", first), "the agent to be back by itself")
    said = openrc.run("nodemanager", "install-service", "--uninstall").stdout
    assert "removed /etc/init.d/nodemanager\n" in said
    assert pid_of_agent(openrc) == ""
    assert "nodemanager" not in openrc.run("rc-update", "show").stdout


def ignored_or_caught(host: OpenRCMachine, pid: str) -> list[str]:
    """Return SIGHUP if it would not end a process."""
    masks: Mapping[str, int] = {
        line.split(":")[0]: int(line.split()[1], 16)
        for line in host.machine.read(f"/proc/{pid}/status").splitlines()
        if line.startswith(("SigIgn", "SigCgt"))
    }
    return ["SIGHUP"] if any(mask & 1 for mask in masks.values()) else []
