"""The watch of a host as a whole: what it cannot hear it says, and nothing of it is left in the end."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nodemanager.host.files.tree import Tree
from nodemanager.host.watches import host_watch
from nodemanager.host.watches.kind_watch import WatchedTools
from nodemanager.plan import merge
from nodemanager.plan.desired import Desired
from support.root_tree import config_set

SERVICES = merge.merge([config_set("test", services=[{"name": "x"}])])
FILES = merge.merge([config_set("test", files=[{"path": "/x"}])])


@contextmanager
def watching(root: str, services: str = "") -> Iterator[host_watch.HostWatch]:
    """A watch that is closed in the end."""
    watch = host_watch.HostWatch(Tree(root), WatchedTools(services=services))
    try:
        yield watch
    finally:
        watch.close()


def descriptors() -> set[str]:
    """Return what this process has open."""
    found = set()
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(f"{one.name} {one.readlink()}")
    return {one for one in found if "inotify" in one or "NETLINK" in one or "socket" in one}


async def test_where_there_is_no_inotify_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watching(str(tmp_path)) as watch:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(sys, "platform", "freebsd14")
            await watch.follow(FILES)
        assert list(watch.shortfalls) == ["cannot watch files: this system has no inotify"]
        assert not watch.lacking  # to try again would not help
        await watch.follow(FILES)
        assert list(watch.shortfalls) == []
        assert (await watch.touched()).resources == {FILES.files[0].id}


async def test_a_pass_that_ends_later_than_the_watch_opens_nothing_again(tmp_path: Path) -> None:
    before = descriptors()
    with watching(str(tmp_path)) as watch:
        await watch.follow(FILES)
        watch.close()
        await watch.follow(FILES)
        assert descriptors() == before


async def test_without_an_instance_it_says_what_to_raise(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with watching(str(tmp_path)) as watch:
        lowest = os.open("/", os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            await watch.follow(FILES)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        [said] = watch.shortfalls
        assert "fs.inotify.max_user_instances" in said
        assert watch.lacking


async def test_without_files_to_open_everything_says_so_and_is_watched_later() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with watching("/") as watch:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
        try:
            await watch.follow(FILES)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert [one.partition(":")[0] for one in watch.shortfalls] == [
            "cannot watch files",
            "cannot watch network interfaces",
        ]
        assert watch.lacking
        await watch.follow(FILES)
        assert watch.shortfalls == ()
        assert not watch.lacking


@pytest.mark.parametrize(
    ("kind", "desired", "said"),
    [
        ("rc.d", SERVICES, ["services are not watched: rc.d does not tell what becomes of them"]),
        ("", SERVICES, ["services are not watched: this host does not tell what becomes of them"]),
        ("rc.d", FILES, []),
    ],
)
async def test_a_service_manager_that_tells_nothing_is_named(
    kind: str, desired: Desired, said: list[str]
) -> None:
    with watching("/", kind) as watch:
        await watch.follow(desired)
        assert list(watch.shortfalls) == said
        assert not watch.lacking


async def test_nothing_is_left_open() -> None:
    before = descriptors()
    watch = host_watch.HostWatch(Tree("/"), WatchedTools(services="OpenRC"))
    await watch.follow(SERVICES)
    part = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    assert descriptors() > before
    part.cancel()
    with pytest.raises(asyncio.CancelledError):
        await part
    assert descriptors() == before
