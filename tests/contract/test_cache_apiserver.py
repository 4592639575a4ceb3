"""The cache against a real kube-apiserver, over a link that breaks."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import DeleteOptions, Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube.core import LEASES, Lease
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.cache import Cache, CacheOptions, Change
from support import apiserver
from support.clients import as_admin, connected
from support.scripted_server import until
from support.tcp_proxy import TcpProxy, proxy


@contextlib.asynccontextmanager
async def flaky(config: ClientConfig) -> AsyncIterator[tuple[Client, TcpProxy]]:
    """A client whose link to the server can be cut."""
    port = int(config.server.rsplit(":", 1)[1])
    async with proxy("127.0.0.1", port) as link:
        through = dataclasses.replace(config, server=f"https://127.0.0.1:{link.port}")
        async with connected(through) as client:
            yield client, link


@contextlib.asynccontextmanager
async def running(cache: Cache[Lease]) -> AsyncIterator[None]:
    task = asyncio.create_task(cache.run())
    try:
        await asyncio.wait_for(cache.synced(), 30)
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


class Fold(dict[str, str]):
    """The state that follows from the changes alone."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[str] = []

    def __call__(self, change: Change[Lease]) -> None:
        if change.new is None:
            del self[change.key.name]
            self.deleted.append(change.key.name)
        else:
            self[change.key.name] = change.new.metadata.resource_version


async def create(client: Client, namespace: str, *names: str) -> None:
    for name in names:
        await client.create(LEASES, Lease(metadata=ObjectMeta(name=name)), namespace)


async def present(client: Client, namespace: str) -> dict[str, str]:
    page = await client.list(LEASES, Selection(namespace))
    return {lease.metadata.name: lease.metadata.resource_version for lease in page.items}


async def test_a_compacted_watch_is_listed_again_with_every_deletion_seen(
    tmp_path: Path, kube: apiserver.ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    del kube  # only for its skip and its worker: this test needs a server without a watch cache
    with apiserver.running(tmp_path / "kube", "--watch-cache=false") as api:
        config = as_admin(api)
        async with connected(config) as admin, flaky(config) as (client, link):
            names = [f"lease-{i:03}" for i in range(60)]
            await create(admin, "default", *names)
            cache, fold = Cache(client, LEASES, Selection("default")), Fold()
            cache.subscribe(fold)
            async with running(cache):
                assert sorted(fold) == names
                link.cut()
                for name in names[::2]:
                    await admin.delete(LEASES, name, "default")
                await create(admin, "default", "later")
                api.compact()
                await admin.patch(
                    LEASES, names[1], "default", MergePatch({"metadata": {"labels": {"a": "b"}}})
                )
                link.mend()
                expected = await present(admin, "default")
                await until(lambda: dict(fold) == expected, 90)
                assert sorted(fold.deleted) == names[::2]
                assert "our revision is gone, listing again" in caplog.text
                await admin.delete(LEASES, "later", "default")  # and the watch goes on
                await until(lambda: "later" in fold.deleted)


async def test_lists_are_streamed_and_watches_survive_cuts(
    kube: apiserver.ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    config = as_admin(kube)
    kube.kubectl("create", "namespace", "cuts")
    async with connected(config) as admin, flaky(config) as (client, link):
        await create(admin, "cuts", *(f"lease-{i}" for i in range(20)))
        cache, fold = Cache(client, LEASES, Selection("cuts")), Fold()
        cache.subscribe(fold)
        async with running(cache):
            assert len(fold) == 20
            for turn in range(10):
                link.cut()
                await admin.delete(LEASES, f"lease-{turn}", "cuts")
                await create(admin, "cuts", f"new-{turn}")
                link.mend()
            expected = await present(admin, "cuts")
            await until(lambda: dict(fold) == expected, 90)
            assert sorted(fold.deleted) == sorted(f"lease-{turn}" for turn in range(10))
    kube.require_streamed_lists()  # all of the above holds without them, too
    assert "streamed lists are not served" not in caplog.text


async def test_pages_and_label_selection(kube: apiserver.ApiServer) -> None:
    kube.kubectl("create", "namespace", "pages")
    async with connected(as_admin(kube)) as admin:
        await create(admin, "pages", *(f"lease-{i}" for i in range(7)))
        page = await admin.page(LEASES, Selection("pages"), limit=3)
        assert len(page.items) == 3
        assert page.continue_token
        assert len((await admin.list(LEASES, Selection("pages"))).items) == 7
        label = MergePatch({"metadata": {"labels": {"role": "db"}}})
        await admin.patch(LEASES, "lease-4", "pages", label)
        cache = Cache(admin, LEASES, Selection("pages", labels="role=db"))
        async with running(cache):
            assert [lease.metadata.name for lease in cache.values()] == ["lease-4"]
            await admin.patch(LEASES, "lease-5", "pages", label)
            unlabel = MergePatch({"metadata": {"labels": {"role": None}}})
            await admin.patch(LEASES, "lease-4", "pages", unlabel)
            await until(lambda: [lease.metadata.name for lease in cache.values()] == ["lease-5"])
        await admin.delete_collection(LEASES, Selection("pages"), options=DeleteOptions())
        assert not await present(admin, "pages")


async def test_the_idle_timeout_is_longer_than_the_time_between_bookmarks(kube: apiserver.ApiServer) -> None:
    """A quiet but healthy watch must not be torn down: the server's bookmarks keep it alive."""
    kube.require_streamed_lists()
    async with connected(as_admin(kube)) as admin:
        watch = await admin.watch(LEASES, Selection("default"), initial_events=True, server_timeout=3)
        async with watch:
            kinds = []
            while batch := await watch.batch():
                kinds += [event.change for event in batch if hasattr(event, "change")]
        assert kinds[-1] == "BOOKMARK"
    assert CacheOptions().idle_timeout >= 75  # the server's own period is a minute
