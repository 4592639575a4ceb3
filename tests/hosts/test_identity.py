"""A real host is renamed, and let go and joined again; its agent goes on, and is never started by hand."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from nodemanager.client.verbs import Client
from nodemanager.kube import errors, manifests
from support.fleet import MANAGER, Fleet, Host, manager, until
from support.fleet_api import resource_of


@pytest.fixture(name="host", scope="module")
def _host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with the unit that `install-service` writes."""
    with Fleet.up(tmp_path_factory.mktemp("fleet"), "deb1") as fleet:
        host = fleet["deb1"]
        host.machine.copy(MANAGER, "/usr/local/bin/nodemanager")
        host.bootstrap()
        host.machine.run("nodemanager", "install-service")
        declare(host, "one\n")
        yield host


def declare(host: Host, content: str) -> None:
    """Have a file on the host, and wait for it."""
    host.api.config_set("motd", host.name, files=[{"path": "/etc/motd", "content": content}])
    host.converge("motd")


def is_repaired(host: Host, content: str) -> bool:
    """Change the file by hand, and tell whether it is put back."""
    host.machine.write("/etc/motd", "by hand\n")
    return until(lambda: host.text("/etc/motd") == content, "the repair of /etc/motd")


def api_state(host: Host) -> dict[str, Any]:
    """Return how the agent stands with the API, as it says on the host."""
    said = host.machine.run("nodemanager", "status", "-o", "json", check=False).stdout
    found: dict[str, Any] = json.loads(said).get("api", {}) if said else {}
    return found


def rename(host: Host, name: str) -> None:
    """Give the host another name, as `hostnamectl` does, and restart its agent."""
    host.machine.run("hostname", name)
    host.machine.run("systemctl", "restart", "nodemanager")


def let_go(host: Host) -> None:
    """Delete what `rbac --revoke` prints."""
    rights = manifests.load_all(manager("rbac", "--hostname", host.name, "--revoke"), "rbac")

    async def delete(client: Client) -> None:
        for one in rights:
            resource = resource_of(one["kind"], one["apiVersion"])
            with contextlib.suppress(errors.NotFound):
                await client.delete(resource, one["metadata"]["name"], one["metadata"].get("namespace", ""))

    host.api.call(delete)


def test_a_renamed_host_is_repaired_from_memory_and_told_what_to_do(host: Host) -> None:
    declare(host, "one\n")  # the other test may have been here before
    rename(host, "renamed")
    try:
        until(lambda: api_state(host).get("state") == "unasked", "an agent that asks nobody")
        assert is_repaired(host, "one\n")
        shown = host.machine.run("nodemanager", "status", check=False).stdout
        remedy = f"run with --hostname {host.name}, or bootstrap anew"
        assert f"this credential is of {host.name}, and this host is called renamed; {remedy}\n" in shown
        assert host.api.get("ManagedNode", "renamed") == {}
    finally:
        rename(host, host.name)
    until(lambda: api_state(host).get("state") == "connected", "the API")


def test_a_host_that_was_let_go_is_back_after_bootstrap_and_reload(host: Host) -> None:
    declare(host, "one\n")
    process = host.shows("nodemanager", "MainPID")
    let_go(host)
    until(lambda: api_state(host).get("state") == "refused", "the refusal")
    assert is_repaired(host, "one\n")
    host.bootstrap()
    host.machine.run("systemctl", "reload", "nodemanager")
    until(lambda: api_state(host).get("state") == "connected", "the API")
    declare(host, "two\n")
    assert host.text("/etc/motd") == "two\n"
    assert host.shows("nodemanager", "MainPID") == process
