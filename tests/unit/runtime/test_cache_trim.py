"""A cache that keeps less than it is told. Aspects: who hears of it, whole objects, older news of these."""

from __future__ import annotations

import asyncio
from typing import Self

import msgspec
import pytest

from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.tasks import end
from support import virtual_time
from support.model_api import NAMESPACE, ModelApi, value_of

KEY = ObjectKey(NAMESPACE, "a")


def trimmed(lease: Lease) -> Lease:
    """Keep everything of those that say `ours`, and nothing of others."""
    if value_of(lease).startswith("ours"):
        return lease
    return msgspec.structs.replace(lease, spec=msgspec.structs.replace(lease.spec, holder_identity="-"))


class Trimming:
    """A cache that trims, and what its subscribers heard."""

    def __init__(self, api: ModelApi) -> None:
        self.api = api
        self.cache = Cache(Client(api), LEASES, Selection(NAMESPACE))
        self.cache.trim_by(trimmed)
        self.heard: list[tuple[str | None, str | None]] = []
        self.cache.subscribe(self._hear)

    def _hear(self, change: Change[Lease]) -> None:
        old, new = (None if one is None else value_of(one) for one in (change.old, change.new))
        self.heard.append((old, new))

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.cache.run())
        await self.cache.synced()
        return self

    async def __aexit__(self, *_: object) -> None:
        await end([self._running])

    @property
    def value(self) -> str:
        found = self.cache.get(KEY)
        return "" if found is None else value_of(found)


@pytest.mark.parametrize("streams", [pytest.param(True, id="streamed"), pytest.param(False, id="paged")])
@virtual_time.test
async def test_lists_and_news_are_trimmed_as_they_come(streams: bool) -> None:
    api = ModelApi(streams=streams)
    for name, value in (("a", "theirs"), ("b", "ours"), ("c", "theirs"), ("d", "theirs")):
        api.put(name, value)
    async with Trimming(api) as here:
        assert sorted(map(value_of, here.cache.values())) == ["-", "-", "-", "ours"]
        here.heard.clear()
        api.put("a", "ours now")
        api.put("b", "theirs now")
        await virtual_time.settle()
        assert here.heard == [("-", "ours now"), ("ours", "-")]


@virtual_time.test
async def test_one_is_read_whole_and_nobody_hears_of_what_is_no_news() -> None:
    api = ModelApi()
    api.put("a", "theirs")
    async with Trimming(api) as here:
        here.heard.clear()
        await here.cache.read_whole(KEY)
        assert (here.value, here.heard) == ("theirs", [])
        here.cache.trim_by(trimmed)  # as when it is not wanted any more
        assert (here.value, here.heard) == ("-", [])
        with pytest.raises(errors.NotFound):
            await here.cache.read_whole(ObjectKey(NAMESPACE, "nothing"))


@virtual_time.test
async def test_news_that_are_older_than_what_was_read_are_none() -> None:
    api = ModelApi()
    api.put("a", "one")
    async with Trimming(api) as here:
        here.heard.clear()
        api.put("a", "ours two")
        api.delete("a")
        api.put("a", "three")  # all of it on its way when we read it
        await here.cache.read_whole(KEY)
        assert (here.value, here.heard) == ("three", [("-", "three")])
        await virtual_time.settle()
        assert (here.value, here.heard) == ("three", [("-", "three")])
        api.put("a", "ours four")
        await virtual_time.settle()
        assert here.value == "ours four"


@virtual_time.test
async def test_while_a_list_is_read_anew_nothing_else_is() -> None:
    api = ModelApi()
    api.put("a", "theirs")
    async with Trimming(api) as here:
        here.cache._version = ""
        with pytest.raises(
            errors.Unreachable, match="cannot read Lease test/a: it changes just now; try again"
        ):
            await here.cache.read_whole(KEY)
        assert here.value == "-"
