"""Hosts with the built agent on them, joined to an API in the way that a user joins them.

    with Fleet.up(folder, "alpha", "beta") as fleet:
        fleet.api.apply(config_set)
        alpha = fleet["alpha"]                     # a Machine in alpha.machine
        alpha.converge("clock")                    # wait until the agent says that it holds

The API is the embedded server with our operator beside it, both of this tree; with KUBEBUILDER_ASSETS it is
a real kube-apiserver. The hosts are `nspawn.Machine`s, each in a network namespace of its own, and know
nothing but `bin/manager` and Debian's Python: rbac, token, bootstrap, a unit, systemctl enable --now.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from nodemanager.api.rights import operator_rights
from nodemanager.client.auth import host_kubeconfig, kubeconfig
from nodemanager.client.subresources import request_token
from nodemanager.controllers import assembly
from nodemanager.host.process import runner
from nodemanager.kube import manifests
from support import apiserver, debian_packages, host_python, server_process
from support.bridge import Bridge
from support.fleet_api import NAMESPACE, FleetApi
from support.nspawn import Machine
from support.package_roots import AptRoot

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
MANAGER = ROOT / "bin" / "manager"
WAIT_SECONDS = 180.0
POLL_SECONDS = 0.1
TOKEN_SECONDS = 24 * 3600
UNIT = """\
[Unit]
Description=nodemanager
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=/usr/local/bin/nodemanager --kubeconfig /etc/nodemanager/kubeconfig
Restart=on-failure
RestartSec=10s
KillMode=process

[Install]
WantedBy=multi-user.target
"""

LONG = """\
#!/bin/sh
echo began >> /run/long
while [ ! -e /run/go-on ]; do sleep 0.1; done
echo ended >> /run/long
"""
"""A program for an execution that runs until it is told to go on."""


def until(condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS) -> T:
    """Wait until something is true, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:g} s in vain: {what}")
        time.sleep(POLL_SECONDS)
    return found


@dataclass
class Host:
    """A host of the fleet."""

    name: str
    address: str
    machine: Machine
    api: FleetApi
    program: Path = MANAGER
    """What becomes its /usr/local/bin/nodemanager."""

    def join(self, **node: Any) -> None:
        """Let it in and start its agent: the four steps of the deployment guide."""
        self.machine.copy(self.program, "/usr/local/bin/nodemanager")
        self.bootstrap(**node)
        self.machine.write("/etc/systemd/system/nodemanager.service", UNIT)
        self.machine.run("systemctl", "enable", "--now", "nodemanager")

    def bootstrap(self, **node: Any) -> None:
        """Let it in, and give it its own credential; the program is there already."""
        self.api.apply(*manifests.load_all(manager("rbac", "--hostname", self.name), "rbac"))
        if node:
            self.api.apply(self.api.managed_node(self.name, **node))
        credential = manager("token", "--hostname", self.name, "--kubeconfig", str(self.api.kubeconfig))
        self.machine.write("/tmp/bootstrap.kubeconfig", credential, 0o600)
        self.machine.run("nodemanager", "bootstrap", "--bootstrap-kubeconfig", "/tmp/bootstrap.kubeconfig")
        self.machine.run("rm", "/tmp/bootstrap.kubeconfig")

    def node(self) -> dict[str, Any]:
        """Return its ManagedNode; empty if there is none yet."""
        return self.api.get("ManagedNode", self.name)

    def status(self) -> dict[str, Any]:
        """Return what its agent says about it."""
        found: dict[str, Any] = self.node().get("status", {})
        return found

    def entry(self, config_set: str) -> dict[str, Any]:
        """Return what its agent says about the newest version of a ConfigSet; empty until it does."""
        generation = self.api.get("ConfigSet", config_set).get("metadata", {}).get("generation")
        for one in self.status().get("configsets", []):
            if one["name"] == config_set and one.get("observedGeneration") == generation:
                return dict(one)
        return {}

    def converge(self, config_set: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until a ConfigSet holds."""

        def holds() -> bool:
            entry = self.entry(config_set)
            return bool(entry) and not any(entry.get(one) for one in ("error", "waiting", "conflicts"))

        try:
            until(holds, f"{config_set} on {self.name}", seconds)
        except pytest.fail.Exception:
            pytest.fail(f"{config_set} does not hold on {self.name}:\n{self.status()}\n{self.log()}")

    def error(self, config_set: str) -> str:
        """Wait until a ConfigSet has an error, and return it."""
        return str(until(lambda: self.entry(config_set).get("error"), f"an error of {config_set}"))

    def condition(self, kind: str) -> str:
        """Return the status of one of its conditions."""
        found: dict[str, str] = {one["type"]: one["status"] for one in self.status().get("conditions", [])}
        return found.get(kind, "")

    def look_again(self) -> None:
        """Ask the agent for a pass."""
        self.machine.run("systemctl", "kill", "--kill-whom=main", "--signal=HUP", "nodemanager")

    def kill_agent(self) -> None:
        """End the agent at once, and have it back without the ten seconds that its unit waits."""
        self.machine.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "nodemanager", check=False)
        until(lambda: self.shows("nodemanager", "MainPID") == "0", "the end of the agent")
        self.machine.run("systemctl", "reset-failed", "nodemanager", check=False)
        self.machine.run("systemctl", "restart", "nodemanager")  # "start" would wait with it

    def shows(self, unit: str, what: str) -> str:
        """Return a property of a unit."""
        return self.machine.run("systemctl", "show", "--value", f"--property={what}", unit).stdout.strip()

    def is_active(self, unit: str) -> bool:
        """Tell whether a unit runs."""
        return self.shows(unit, "ActiveState") == "active"

    def text(self, path: str) -> str:
        """Return what a file contains; empty as long as it is not there."""
        return self.machine.run("cat", path, check=False).stdout

    def stat(self, path: str) -> str:
        """Return owner, group and mode of a file."""
        return self.machine.run("stat", "--format=%U %G %a", path).stdout.strip()

    def log(self) -> str:
        """Return what the agent wrote to the journal."""
        return self.machine.journal("-u", "nodemanager", lines=10000)


@dataclass
class Fleet:
    """Hosts by their short names."""

    api: FleetApi
    hosts: dict[str, Host] = field(default_factory=dict)

    def __getitem__(self, short: str) -> Host:
        return self.hosts[short]

    @classmethod
    @contextlib.contextmanager
    def up(
        cls,
        folder: Path,
        *names: str,
        repository: Path | None = None,
        binds: Mapping[Path, str] | None = None,
    ) -> Iterator[Fleet]:
        """Start an API and boot machines; nothing of them is left in the end.

        `repository` is offered to apt, and nothing else is; `binds` are paths that the machines see, too.
        """
        check_manager()
        binds = {**(binds or {}), **({repository: "/srv/repository"} if repository else {})}
        with contextlib.ExitStack() as stack:
            bridge = stack.enter_context(Bridge())
            fleet = cls(stack.enter_context(serving(folder, bridge.address)))
            suffix = secrets.token_hex(2)
            for short in names:
                name = f"{short}-{suffix}"
                namespace, address = bridge.plug(name)
                machine = stack.enter_context(Machine.boot(name, binds=binds, network=namespace))
                if repository:
                    machine.write("/etc/apt/sources.list", "deb [trusted=yes] file:/srv/repository ./\n")
                fleet.hosts[short] = Host(name, address, machine, fleet.api)
            yield fleet

    @contextlib.contextmanager
    def watched(self, request: pytest.FixtureRequest) -> Iterator[Fleet]:
        """Print what the agents wrote during a test if it fails."""
        failed = request.session.testsfailed
        yield self
        if request.session.testsfailed == failed:
            return
        for host in self.hosts.values():
            with contextlib.suppress(AssertionError):
                sys.stdout.write(f"--- {host.name}\n{host.log()[-8000:]}\n")


@contextlib.contextmanager
def apt_repository(folder: Path) -> Iterator[AptRoot]:
    """A repository to publish packages to."""
    debian_packages.ensure(*AptRoot.debian)
    made = AptRoot(folder)
    try:
        yield made
    finally:
        made.close()


def check_manager() -> None:
    """Fail with what to do when there is no bin/manager that Debian's Python can run."""
    if not MANAGER.exists():
        pytest.fail("cannot run the agent: there is no bin/manager; make e2e builds it first")
    launcher = MANAGER.read_bytes()[:2000]
    if f"needs Python {host_python.VERSION};".encode() not in launcher:
        pytest.fail(
            f"cannot run the agent: bin/manager is not for Python {host_python.VERSION}, which Debian 12 has;"
            f" run make clean, then make e2e PYTHON=python{host_python.VERSION}"
        )


def manager(*args: str) -> str:
    """Run bin/manager on this machine as an administrator would, and return what it prints."""
    home = {key: os.environ[key] for key in ("HOME", "PATH") if key in os.environ}
    done = subprocess.run(
        [str(MANAGER), *args], env=home, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _operator(api: FleetApi, *, edge: bool) -> bytes:
    """Return a kubeconfig of the operator's own account, with the rights that it has in a cluster."""
    api.apply(*assembly.manifests(NAMESPACE), *assembly.disruption_manifests(NAMESPACE))
    if edge:
        api.apply(*assembly.edge_manifests(NAMESPACE))
    issued = api.call(
        lambda client: request_token(client, operator_rights.NAME, NAMESPACE, seconds=TOKEN_SECONDS)
    )
    admin = kubeconfig.load(path=str(api.kubeconfig), environ={}, run=runner.run)
    return host_kubeconfig.kubeconfig(admin, "operator", NAMESPACE, issued.token)


@contextlib.contextmanager
def serving(
    folder: Path, address: str, *, embedded: bool | None = None, edge: bool = False
) -> Iterator[FleetApi]:
    """Serve an API with our kinds and our policy in it, and run our operator on it; for edge sites, if asked.

    It is kube-apiserver where there is one, unless the embedded one is asked for.
    """
    with contextlib.ExitStack() as stack:
        if apiserver.assets() is None if embedded is None else embedded:
            server = stack.enter_context(server_process.running(folder / "data", host=address, first=True))
            api = FleetApi(server.kubeconfig, server)
        else:
            kube = stack.enter_context(apiserver.running(folder / "kube", host=address))
            api = FleetApi(kube.kubeconfig)
            api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            manager("crds", "--install", "--kubeconfig", str(kube.kubeconfig))  # with templates, into it
            for policy in sorted((ROOT / "config/policy").glob("*.yaml")):
                api.apply(*manifests.load_all(policy.read_text(), policy.name))
        own = folder / "operator.kubeconfig"
        own.write_bytes(_operator(api, edge=edge))
        argv = [sys.executable, "-m", "nodemanager", "operator", "--kubeconfig", str(own)]
        argv += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--no-leader-elect"]
        argv += ["--edge"] if edge else []
        with (folder / "operator.log").open("wb") as log:
            operator = api.operator = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            yield api
        finally:
            operator.kill()
            operator.wait(50)
