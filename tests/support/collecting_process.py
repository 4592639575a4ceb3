"""A process that is killed while it collects: `python -m support.collecting_process PATH POLICY CHANGES`.

It makes a tree of objects in a durable store, deletes the root, and kills itself, as nobody can do from
outside at the right moment, when it sees that many changes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from nodemanager.kube.objects import Untyped
from nodemanager.server.collection.collector import Collector
from nodemanager.server.hub import Hub
from nodemanager.server.kinds import namespaces
from nodemanager.server.kinds.builtin_kinds import BUILTIN
from nodemanager.server.kinds.resources import Catalogue, ServedKind
from nodemanager.server.verbs import deletion, internal_requests, options, read, stored, write
from nodemanager.server.verbs.delete_options import DeleteOptions
from nodemanager.store.sqlite import SqliteStore
from support.owned import blocking, config_map

KIND: ServedKind = next(kind for kind in BUILTIN if kind.plural == "configmaps")
BRANCHES, LEAVES = 12, 12
_OPTIONS = options.WriteOptions(dry_run=False, validation="Ignore", manager="test")


async def make_tree(hub: Hub) -> None:
    """Make a root that owns branches that own leaves."""
    await namespaces.ensure(hub, "default")
    root = await make(hub, config_map("root"))
    for branch in range(BRANCHES):
        name = f"branch-{branch}"
        made = await make(hub, config_map(name, blocking(root)))
        leaves = [config_map(f"{name}-{leaf}", blocking(made)) for leaf in range(LEAVES)]
        await asyncio.gather(*(make(hub, leaf) for leaf in leaves))


async def make(hub: Hub, obj: Untyped) -> Untyped:
    """Store an object, and return it as it is stored."""
    call = internal_requests.call("create", KIND, "default", obj["metadata"]["name"])
    await write.add(hub, call, obj, _OPTIONS)
    return stored.load(KIND, read.find(hub, call))


async def main(path: Path, policy: str, changes: int) -> None:
    """Make the tree, delete its root, and collect until the end."""
    hub = Hub(await SqliteStore.open(path), Catalogue(BUILTIN))
    await make_tree(hub)
    collecting = asyncio.create_task(Collector(hub).run())
    await hub.collected(hub.store.revision)
    watch = hub.store.watch(KIND.prefix(), hub.store.revision)
    call = internal_requests.call("delete", KIND, "default", "root")
    await deletion.delete_one(hub, call, read.find(hub, call), DeleteOptions(policy=policy))
    while changes > 0 and not collecting.done():
        changes -= len(await watch.next())
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
