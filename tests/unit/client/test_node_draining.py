"""Evictions that hang: what they cost, and whom they hold up."""

from __future__ import annotations

import asyncio
from typing import Any

from nodemanager.client import node_draining
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.node_draining import NOT_ASKED, TERMINATING, UNANSWERED, Unanswered
from support import virtual_time
from support.clients import connected
from support.scripted_server import Exchange, serve


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "web", "uid": f"uid-{name}"}}


async def answer(exchange: Exchange) -> None:
    """As a server whose webhook for evictions hangs for some pods, and has no opinion about others."""
    if "/stuck" in exchange.target:
        await exchange.hang()
    else:
        await exchange.json({"kind": "Status", "status": "Success"}, 201)


@virtual_time.test
async def test_a_webhook_that_hangs_costs_ten_seconds_whatever_the_number_of_pods() -> None:
    loop, unanswered = asyncio.get_running_loop(), Unanswered()
    leaving = [*(pod(f"stuck{number}") for number in range(20)), pod("web1")]
    async with serve(answer) as server, connected(ClientConfig(server.url)) as client:
        began = loop.time()
        found = await node_draining.evict(client, leaving, unanswered=unanswered)
        assert loop.time() - began == node_draining.ANSWER_SECONDS == 10
        assert found.blocked["web/stuck0"] == UNANSWERED
        assert found.blocked["web/web1"] == NOT_ASKED  # behind those that hang
        looks = 1
        while found.blocked["web/web1"] != TERMINATING:
            began = loop.time()
            found = await node_draining.evict(client, leaving, unanswered=unanswered)
            assert loop.time() - began <= node_draining.HASTY_SECONDS  # from now on others are not held up
            looks += 1
        assert looks == 3
        asked = len(server.requests)
        await node_draining.evict(client, leaving[:-1], unanswered=unanswered)
        assert len(server.requests) == asked  # spared
        await asyncio.sleep(node_draining.SPARED_SECONDS)
        await node_draining.evict(client, leaving[:-1], unanswered=unanswered)
        assert len(server.requests) > asked  # and asked again, for good


@virtual_time.test
async def test_pods_that_answer_are_evicted_beside_one_that_hangs() -> None:
    async with serve(answer) as server, connected(ClientConfig(server.url)) as client:
        found = await node_draining.evict(client, [pod("stuck"), pod("web1"), pod("web2")])
        assert found.blocked == {"web/stuck": UNANSWERED, "web/web1": TERMINATING, "web/web2": TERMINATING}
