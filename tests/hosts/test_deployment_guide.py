"""The deployment guide, word for word: from `rbac` to an agent under systemd, on both servers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from nodemanager.client.verbs import Client
from support import apiserver, host_attempts
from support.bridge import Bridge
from support.either import Place, need_kubectl
from support.fleet import MANAGER, Host, check_manager, serving, until
from support.fleet_api import NAMESPACE, FleetApi
from support.host_attempts import OURS
from support.joined_host import Joined, Reply, ask
from support.nspawn import ENVIRONMENT, Machine

T = TypeVar("T")
APPLY_RIGHTS = "nodemanager rbac --hostname myhost | kubectl apply -f -"
CAPTURE_RIGHTS = "nodemanager rbac --hostname myhost > manifests/nodemanager-myhost.yaml"
TOKEN_TO_A_FILE = "nodemanager token --hostname myhost --out myhost-bootstrap.kubeconfig"
TOKEN_OVER_SSH = """\
nodemanager token --hostname myhost | ssh myhost \\
  "cat > /tmp/bootstrap.kubeconfig && nodemanager bootstrap --bootstrap-kubeconfig /tmp/bootstrap.kubeconfig"
"""
BOOTSTRAP = "nodemanager bootstrap --bootstrap-kubeconfig /tmp/bootstrap.kubeconfig"
FORGET = "rm /tmp/bootstrap.kubeconfig"
ENABLE = "systemctl enable --now nodemanager"
UNIT = """\
[Unit]
Description=nodemanager
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=/usr/local/bin/nodemanager --kubeconfig /etc/nodemanager/kubeconfig
Restart=on-failure
RestartSec=10s

[Install]
WantedBy=multi-user.target
"""
SSH = """\
#!/bin/sh
# ssh HOST COMMAND: the machine of a test is entered, not called.
case "$1" in
{hosts}
esac
exec env -i {environment} $enter sh -c "$2"
"""


@dataclass
class Office:
    """Where an administrator sits: a home with a kubeconfig, and the three programs of the guide."""

    folder: Path
    api: FleetApi
    hosts: dict[str, Host]

    def types(self, line: str) -> str:
        """Type a line of the guide into a shell; return what it prints."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=self.folder,
            env={"PATH": path, "HOME": str(self.folder)}, capture_output=True, text=True, timeout=150,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def furnish(self) -> None:
        """Put everything in its place."""
        (self.folder / ".kube").mkdir()
        (self.folder / ".kube" / "config").write_bytes(self.api.kubeconfig.read_bytes())
        (self.folder / "manifests").mkdir()
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "nodemanager").symlink_to(MANAGER)
        cases = (
            f'    {name}) enter="{shlex.join(host.machine.inside())}" ;;' for name, host in self.hosts.items()
        )
        environment = shlex.join(f"{key}={value}" for key, value in ENVIRONMENT.items())
        (tools / "ssh").write_text(SSH.format(hosts="\n".join(cases), environment=environment))
        (tools / "ssh").chmod(0o755)

    def credential(self, name: str) -> Joined:
        """Return what a host has got, to be that host from here."""
        own = self.folder / f"{name}.kubeconfig"
        own.write_text(self.hosts[name].machine.read("/etc/nodemanager/kubeconfig"))
        return Joined(name, Place(own, NAMESPACE, self.folder), own)


@pytest.fixture(scope="module", params=["kube-apiserver", "embedded"])
def new_office(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """Two new machines, `myhost` and `other`, that know nothing of the API yet."""
    embedded = request.param == "embedded"
    if not embedded and apiserver.assets() is None:
        pytest.skip("KUBEBUILDER_ASSETS is not set: it names a folder with kube-apiserver and etcd")
    need_kubectl()
    check_manager()
    folder = tmp_path_factory.mktemp("office")
    with contextlib.ExitStack() as stack:
        bridge = stack.enter_context(Bridge())
        api = stack.enter_context(serving(tmp_path_factory.mktemp("api"), bridge.address, embedded=embedded))
        hosts: dict[str, Host] = {}
        for name in ("myhost", "other"):
            network, address = bridge.plug(name)
            machine = stack.enter_context(Machine.boot(network=network))
            machine.write("/etc/hostname", f"{name}\n")
            machine.run("hostname", name)
            machine.copy(MANAGER, "/usr/local/bin/nodemanager")
            hosts[name] = Host(name, address, machine, api)
        office = Office(folder, api, hosts)
        office.furnish()
        yield office


def as_host(office: Office, name: str, act: Callable[[Client], Awaitable[T]]) -> T:
    """Do something with the credential of a host."""

    async def connect() -> T:
        async with office.credential(name).client() as client:
            return await act(client)

    return asyncio.run(connect())


@pytest.fixture(name="office", scope="module")
def _office(new_office: Office) -> Office:
    """The guide is followed: the first host by a pipe over ssh, the second by a file; every command twice."""
    office = new_office
    myhost, other = office.hosts["myhost"], office.hosts["other"]
    office.types(APPLY_RIGHTS)
    assert {line.split()[-1] for line in office.types(APPLY_RIGHTS).splitlines()} == {"unchanged"}
    office.types(CAPTURE_RIGHTS)
    office.types("kubectl apply -f manifests/nodemanager-myhost.yaml")
    assert "token issued (expires 20" in office.types(TOKEN_OVER_SSH)
    first = myhost.text("/etc/nodemanager/kubeconfig")
    office.types(TOKEN_OVER_SSH)
    assert myhost.text("/etc/nodemanager/kubeconfig") != first
    for line in (APPLY_RIGHTS, TOKEN_TO_A_FILE):
        office.types(line.replace("myhost", "other"))
    short = (office.folder / "other-bootstrap.kubeconfig").read_text()
    other.machine.write("/tmp/bootstrap.kubeconfig", short, 0o600)
    for host in (myhost, other):
        host.machine.run(*BOOTSTRAP.split())
        host.machine.run(*FORGET.split())
        host.machine.write("/etc/systemd/system/nodemanager.service", UNIT)
        host.machine.run(*ENABLE.split())
    for host in (myhost, other):
        until(lambda one=host: one.condition("Ready") == "True", f"{host.name} is ready")  # type: ignore[misc]
        assert "orbidden" not in host.log(), host.log()
        assert "cannot" not in host.log(), host.log()
    return office


def test_the_guide_word_for_word(office: Office) -> None:
    myhost, other = office.hosts["myhost"], office.hosts["other"]
    office.api.config_set("motd", "myhost", files=[{"path": "/etc/motd", "content": "hello\n"}])
    myhost.converge("motd")
    assert (myhost.text("/etc/motd"), other.text("/etc/motd") == "hello\n") == ("hello\n", False)
    assert (office.folder / "other-bootstrap.kubeconfig").stat().st_mode & 0o777 == 0o600
    for host in (myhost, other):
        assert host.stat("/etc/nodemanager/kubeconfig") == "root root 600"
        assert host.stat("/etc/nodemanager") == "root root 750"
        assert (host.shows("nodemanager", "ActiveState"), host.shows("nodemanager", "UnitFileState")) == (
            "active", "enabled",
        )  # fmt: skip
        until(lambda one=host: one.condition("TokenRenewed") == "True", "a report of its token")  # type: ignore[misc]


def post(folder: str, body: Any) -> Callable[[Client], Awaitable[Reply]]:
    return lambda client: ask(client, "POST", folder, body)


def test_what_another_host_can_do_to_it(office: Office) -> None:
    for what, (folder, name, body) in host_attempts.belongings("myhost", NAMESPACE, "other").items():
        made = office.api.call(post(folder, body))
        assert made.code in {200, 409}, (what, name, made)
    codes = as_host(office, "other", lambda client: host_attempts.tried(client, "myhost", NAMESPACE, "other"))
    print(host_attempts.table(codes))  # noqa: T201 - for pytest -rP
    assert host_attempts.allowed(codes) == host_attempts.DOCUMENTED
    assert len(codes) >= 200
    until(lambda: office.hosts["myhost"].condition("Ready") == "True", "that nothing has come of it")


def test_a_host_that_labels_itself_is_refused(office: Office) -> None:
    target, change = f"{OURS}/{NAMESPACE}/managednodes/myhost", {"metadata": {"labels": {"role": "db"}}}
    reply = as_host(office, "myhost", lambda client: ask(client, "PATCH", target, change))
    assert reply.code == host_attempts.REFUSED
    assert "a host may only set these labels on itself" in reply.message
    assert "role" not in office.hosts["myhost"].node()["metadata"]["labels"]


def test_it_reads_the_secrets_that_are_referred_to_and_no_others(office: Office) -> None:
    names = ("one", "two", "three")
    for name in names:
        office.api.secret(name, key=name)
    folder = f"/api/v1/namespaces/{NAMESPACE}/secrets"

    async def tried(client: Client) -> set[str]:
        codes = {name: await ask(client, "GET", f"{folder}/{name}") for name in names}
        return {name for name, reply in codes.items() if reply.code == 200}

    def await_only(*wanted: str) -> None:
        started = time.monotonic()
        until(lambda: as_host(office, "myhost", tried) == set(wanted), f"{wanted} can be read")
        print(f"{wanted} after {time.monotonic() - started:.2f} s")  # noqa: T201 - for pytest -rP

    await_only()
    for wanted in ("one", "two", "one"):
        files = [{"path": "/etc/secret", "template": "x", "secretRefs": [wanted]}]
        office.api.config_set("reads", "myhost", files=files)
        await_only(wanted)
    office.api.delete("ConfigSet", "reads")
    await_only()
