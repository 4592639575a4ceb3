"""WireGuard keys of a host: made once, never guessed, never lost to an API that does not answer."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path

import pytest

from nodemanager.agent.report.sight import Eyes
from nodemanager.api.common.managednode import (
    ManagedNode,
    ManagedNodeSpec,
    ManagedNodeStatus,
    WireGuardSpec,
    WireGuardStatus,
)
from nodemanager.client.auth.config import ClientConfig
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import x25519
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.process import runner
from nodemanager.kube.objects import ObjectMeta
from support.clients import connected
from support.scripted_server import Exchange, ScriptedServer, serve

WHO = Identity("web1", "debian", (), "linux", "x86_64", "6.1")
PAIR = x25519.generate()


def node(known: str = "") -> ManagedNode:
    links = [WireGuardStatus(name="wg0", public_key=known)] if known else []
    return ManagedNode(
        metadata=ObjectMeta(name="web1", namespace="n"),
        spec=ManagedNodeSpec(wire_guard=WireGuardSpec(enabled=True)),
        status=ManagedNodeStatus(wire_guard=links),
    )


async def keys(server: ScriptedServer, root: Path, asked: ManagedNode) -> list[str]:
    tree = Tree(str(root))
    async with connected(ClientConfig(server.url)) as client:
        found = await Eyes(tree, WHO, runner.run, client).look(asked)
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
        await exchange.json(secret(private_key=PAIR.private, public_key="somebody-elses"))

    async with serve(stored) as server:
        assert await keys(server, tmp_path, node()) == [PAIR.public]


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
    assert x25519.public_of(private) == public
    assert private not in caplog.text
