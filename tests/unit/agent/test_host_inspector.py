"""WireGuard keys of a host: made once, never guessed, never lost to an API that does not answer."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from nodemanager.agent.report.host_inspector import HostInspector
from nodemanager.api.common.managednode import (
    HostOperatingSystem,
    ManagedNode,
    ManagedNodeSpec,
    ManagedNodeStatus,
    WireGuardSpec,
    WireGuardStatus,
)
from nodemanager.client.auth.config import ClientConfig
from nodemanager.host.base import Runner
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import wireguard
from nodemanager.host.inventory.identity import Identity
from nodemanager.kube.objects import ObjectMeta
from support.clients import connected
from support.fake_wg import host_with_wg, host_without_wg
from support.scripted_server import Exchange, ScriptedServer, serve

WHO = Identity("web1", "debian", (), "linux", "x86_64", "6.1")
KEY = X25519PrivateKey.generate()
PRIVATE, PUBLIC = (
    base64.b64encode(half).decode() for half in (KEY.private_bytes_raw(), KEY.public_key().public_bytes_raw())
)


def node(known: str = "", interface: str = "wg0") -> ManagedNode:
    links = [WireGuardStatus(name="wg0", public_key=known)] if known else []
    return ManagedNode(
        metadata=ObjectMeta(name="web1", namespace="n"),
        spec=ManagedNodeSpec(wire_guard=WireGuardSpec(enabled=True, interface=interface)),
        status=ManagedNodeStatus(wire_guard=links),
    )


async def keys(
    server: ScriptedServer, root: Path, asked: ManagedNode, run: Runner | None = None
) -> list[str]:
    tree = Tree(str(root))
    async with connected(ClientConfig(server.url)) as client:
        found = await HostInspector(tree, WHO, run or host_with_wg(root), client).look(asked)
    tree.close()
    return [one.public_key for one in found.wire_guard]


def secret(**texts: str) -> dict[str, object]:
    data = {key.replace("_", "-"): base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return {"metadata": {"name": "wg-wg0-web1", "namespace": "n"}, "data": data}


async def test_a_key_that_cannot_be_asked_for_is_not_lost(tmp_path: Path) -> None:
    async def forbidden(exchange: Exchange) -> None:
        await exchange.refuse(403, "Forbidden")

    async with serve(forbidden) as server:
        assert await keys(server, tmp_path, node("KNOWN")) == ["KNOWN"]
        assert {one.method for one in server.requests} == {"GET"}  # nothing is made on a mere refusal


async def test_the_private_half_decides(tmp_path: Path) -> None:
    async def stored(exchange: Exchange) -> None:
        await exchange.json(secret(private_key=PRIVATE, public_key="somebody-elses"))

    async with serve(stored) as server:
        assert await keys(server, tmp_path, node()) == [PUBLIC]


async def test_a_secret_without_a_key_is_left_alone_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def stored(exchange: Exchange) -> None:
        await exchange.json(secret(private_key="not-a-key-but-secret"))

    async with serve(stored) as server:
        assert await keys(server, tmp_path, node()) == []
    assert "Secret wg-wg0-web1 has no WireGuard key as private-key; delete it to get a new one" in caplog.text
    assert "not-a-key-but-secret" not in caplog.text


async def test_a_new_key_is_stored_before_it_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stored: list[dict[str, str]] = []

    async def empty(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.refuse(404, "NotFound")
            return
        stored.append(json.loads(exchange.body)["data"])
        await exchange.json(secret(), 201)

    async with serve(empty) as server:
        (public,) = await keys(server, tmp_path, node())
    private = base64.b64decode(stored[0]["private-key"]).decode()
    assert await wireguard.public_key(host_with_wg(tmp_path), private) == public
    assert private not in caplog.text


async def test_without_wg_no_key_is_made_and_the_known_one_is_not_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def empty(exchange: Exchange) -> None:
        await exchange.refuse(404, "NotFound")

    async with serve(empty) as server:
        assert await keys(server, tmp_path, node("KNOWN"), host_without_wg(tmp_path)) == ["KNOWN"]
        assert {one.method for one in server.requests} == {"GET"}
    assert (
        "cannot look after the WireGuard key of wg0: cannot run wg genkey: this host has no wg" in caplog.text
    )


async def test_what_keeps_a_key_from_being_looked_after_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def forbidden(exchange: Exchange) -> None:
        await exchange.refuse(403, "Forbidden")

    tree = Tree(str(tmp_path))
    async with serve(forbidden) as server, connected(ClientConfig(server.url)) as client:
        inspector = HostInspector(tree, WHO, host_with_wg(tmp_path), client)
        for _ in range(3):
            await inspector.look(node())
    tree.close()
    assert caplog.text.count("cannot look after the WireGuard key of wg0") == 1


async def test_a_key_is_made_once_and_again_when_it_was_deleted(tmp_path: Path) -> None:
    stored: dict[str, dict[str, object]] = {}

    async def store(exchange: Exchange) -> None:
        if exchange.method != "GET":
            body = json.loads(exchange.body)
            stored[body["metadata"]["name"]] = body
            await exchange.json(body, 201)
        elif (found := stored.get(exchange.target.partition("?")[0].rpartition("/")[2])) is not None:
            await exchange.json(found)
        else:
            await exchange.refuse(404, "NotFound")

    async with serve(store) as server:
        first = await keys(server, tmp_path, node())
        assert await keys(server, tmp_path, node()) == first
        assert await keys(server, tmp_path, node(interface="wg1")) != first  # another key for another link
        del stored["wg-wg0-web1"]
        assert await keys(server, tmp_path, node()) != first


DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'


@pytest.mark.parametrize(
    ("release", "version", "named"),
    [
        pytest.param(DEBIAN, "12", "Debian GNU/Linux 12 (bookworm)", id="debian"),
        pytest.param("ID=arch\nPRETTY_NAME='Arch Linux'\n", "", "Arch Linux", id="rolling"),
        pytest.param(None, "", "linux 6.1", id="no os-release"),
        pytest.param(f"PRETTY_NAME={'x' * 300}\nVERSION_ID={'1' * 70}\n", "1" * 64, "x" * 256, id="too long"),
    ],
)
async def test_the_operating_system_is_what_os_release_says_now(
    tmp_path: Path, release: str | None, version: str, named: str
) -> None:
    (tmp_path / "etc").mkdir()
    if release is not None:
        (tmp_path / "etc" / "os-release").write_text(release)
    tree = Tree(str(tmp_path))
    async with connected(ClientConfig("http://127.0.0.1:1")) as client:
        found = await HostInspector(tree, WHO, host_without_wg(tmp_path), client).look(ManagedNode())
    tree.close()
    assert found.os == HostOperatingSystem(id="debian", version=version, pretty_name=named, kernel="6.1")
