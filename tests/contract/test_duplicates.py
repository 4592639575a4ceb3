"""Two machines of one name notice each other by the Lease that both renew; on both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nodemanager.agent.report.heartbeat import HeartbeatSender
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube.core import LEASES
from nodemanager.kube.objects import ObjectKey
from support.agent_process import Api
from support.either import Place
from support.joined_host import join


@pytest.fixture(name="me")
async def _me(place: Place, tmp_path: Path) -> AsyncIterator[Client]:
    """The API as host web1 sees it; a clone has the same credential."""
    async with (await join(place, tmp_path, "web1")).client() as client:
        yield client


class Machine:
    """The heart of one, and what it noticed."""

    def __init__(self, client: Client, place: Place) -> None:
        self.noticed: list[bool] = []
        key = ObjectKey(place.namespace, "web1")
        self._heart = HeartbeatSender(client, key, lambda: datetime.now(UTC), duplicated=self.noticed.append)

    async def beats(self) -> None:
        await self._heart.beat()


async def test_a_clone_is_noticed_by_both_and_forgotten_when_it_is_gone(me: Client, place: Place) -> None:
    original, clone = Machine(me, place), Machine(me, place)
    await original.beats()
    await clone.beats()
    await original.beats()
    assert (original.noticed, clone.noticed) == ([], [])
    for _ in range(3):
        await clone.beats()
        await original.beats()
    assert (original.noticed, clone.noticed) == ([True], [True])
    await original.beats()
    assert original.noticed == [True, False]


async def test_neither_a_restart_nor_an_administrator_is_taken_for_a_clone(
    me: Client, place: Place, api: Api
) -> None:
    first = Machine(me, place)
    for _ in range(3):
        await first.beats()
        touched = MergePatch({"metadata": {"annotations": {"touched": datetime.now(UTC).isoformat()}}})
        await api.client.patch(LEASES, "nodemanager-web1", place.namespace, touched)
    second = Machine(me, place)
    for _ in range(3):
        await second.beats()
    await api.client.delete(LEASES, "nodemanager-web1", place.namespace)
    for _ in range(3):
        await second.beats()
    assert (first.noticed, second.noticed) == ([], [])
