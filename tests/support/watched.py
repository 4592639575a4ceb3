"""A directory that is a host's root and is watched; says what was touched, without waiting for a clock."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nodemanager.host.files.tree import Tree
from nodemanager.host.watches import host_watch
from nodemanager.host.watches.inbox import Touched
from nodemanager.host.watches.kind_watch import WatchedTools
from nodemanager.plan import merge
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId, file_id
from support.root_tree import config_set

SENTINEL = "/sentinel"
SECONDS = 50.0


class Watched:
    """A root and its watch; begins with nothing touched."""

    def __init__(self, root: Path, *files: str | dict[str, Any]) -> None:
        self.root = root
        self.at(SENTINEL).write_text("")
        self._pen = os.open(self.at(SENTINEL), os.O_WRONLY)
        self.watch = host_watch.HostWatch(Tree(str(root)), WatchedTools())
        self.files = files

    def at(self, path: str) -> Path:
        """Return a path of the host as one of this machine."""
        return self.root / path.lstrip("/")

    def desired(self, *files: str | dict[str, Any], **spec: Any) -> Desired:
        """Return declarations of these files, and of the sentinel."""
        declared = [one if isinstance(one, dict) else {"path": one} for one in (*files, SENTINEL)]
        return merge.merge([config_set("test", files=declared, **spec)])

    async def follow(self, *files: str | dict[str, Any], **spec: Any) -> Touched:
        """Watch these files; return what that touches."""
        await self.watch.follow(self.desired(*files, **spec))
        return await self.seen()

    async def seen(self) -> Touched:
        """Return all that was touched until now: events come in order, so those of the sentinel are last."""
        os.pwrite(self._pen, b"x", 0)
        found: set[ResourceId] = set()
        everything = inventory = False
        async with asyncio.timeout(SECONDS):
            while file_id(SENTINEL) not in found:
                touched = await self.watch.touched()
                found |= touched.resources
                everything |= touched.everything
                inventory |= touched.inventory
        return Touched(frozenset(found) - {file_id(SENTINEL)}, everything, inventory)

    async def paths(self) -> set[str]:
        """Return the paths that were touched until now."""
        return {one.name for one in (await self.seen()).resources}

    async def __aenter__(self) -> Self:
        await self.follow(*self.files)
        await self.seen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watch.close()
        os.close(self._pen)
