"""A real host whose agent is this source tree, joined to an embedded API: nothing has to be built first.

with SourceHost.up(folder, "web1") as host:        # a `fleet.Host`, with a Machine in host.machine
    host.enroll(unit(WatchdogSec="5"))
    host.api.config_set("motd", host.name, files=[...])
    host.converge("motd")
    print(host.nodemanager("status").stdout)
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from nodemanager.kube import manifests
from support import cli, host_python, server_process
from support.bridge import Bridge
from support.fleet import Host
from support.fleet_api import FleetApi
from support.nspawn import Machine

KUBECONFIG = "/etc/nodemanager/kubeconfig"
_VARIABLES = " ".join(f"{name}={value}" for name, value in host_python.ENVIRONMENT.items())


def unit(*, module: str = "nodemanager", flags: str = "", **service: str) -> str:
    """Return a unit of the agent that tells systemd how it is, with more lines for its section Service."""
    lines = "".join(f"{name}={value}\n" for name, value in service.items())
    return (
        f"[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=notify\nNotifyAccess=main\nEnvironment={_VARIABLES}\n"
        f"ExecStart=/usr/bin/python3 -m {module} --kubeconfig {KUBECONFIG} {flags}\n"
        f"Restart=always\nRestartSec=100ms\nKillMode=process\n{lines}[Install]\nWantedBy=multi-user.target\n"
    )


class SourceHost(Host):
    """A host without bin/manager."""

    @classmethod
    @contextlib.contextmanager
    def up(cls, folder: Path, name: str) -> Iterator[Self]:
        """Start an API and boot the host; nothing is left in the end."""
        with contextlib.ExitStack() as stack:
            bridge = stack.enter_context(Bridge())
            server = stack.enter_context(
                server_process.running(folder / "data", host=bridge.address, first=True)
            )
            namespace, address = bridge.plug(name)
            machine = stack.enter_context(Machine.boot(name, binds=host_python.binds(), network=namespace))
            yield cls(name, address, machine, FleetApi(server.kubeconfig))

    def enroll(self, service: str) -> None:
        """Let it in and start its agent with a unit."""
        self.api.apply(*manifests.load_all(_admin("rbac", "--hostname", self.name), "rbac"))
        credential = _admin("token", "--hostname", self.name, "--kubeconfig", str(self.api.kubeconfig))
        self.machine.write("/tmp/bootstrap.kubeconfig", credential, 0o600)
        self.nodemanager("bootstrap", "--bootstrap-kubeconfig", "/tmp/bootstrap.kubeconfig")
        self.machine.write("/etc/systemd/system/nodemanager.service", service)
        self.machine.run("systemctl", "enable", "nodemanager")
        self.machine.run("systemctl", "start", "nodemanager")

    def nodemanager(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of ours on the host."""
        argv = (*host_python.COMMAND, "-m", "nodemanager", *args)
        return self.machine.run(*argv, env=host_python.ENVIRONMENT, check=check)


def _admin(*args: str) -> str:
    done = subprocess.run(
        [*cli.ARGV, *args], env=cli.environment(), capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
