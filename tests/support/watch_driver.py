"""Runs in a test machine: watches what it is told to, and says in lines of JSON what was touched.

{"touched": ["service:x"], "everything": false, "inventory": false, "shortfalls": [], "at": 1700000000.0}
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import msgspec

from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.files.tree import Tree
from nodemanager.host.packages import apt
from nodemanager.host.watches import host_watch
from nodemanager.host.watches.kind_watch import WatchedTools
from nodemanager.plan import merge


async def main(services: str, spec: str) -> None:
    """Watch the declarations of a ConfigSet, with a kind of service manager."""
    watch = host_watch.HostWatch(Tree("/"), WatchedTools((apt.STATUS,), services))
    await watch.follow(merge.merge([msgspec.json.decode(spec, type=ConfigSet)]))
    async with asyncio.TaskGroup() as group:
        group.create_task(watch.run())
        while True:
            touched = await watch.touched()
            line = {
                "touched": sorted(map(str, touched.resources)),
                "everything": touched.everything,
                "inventory": touched.inventory,
                "shortfalls": watch.shortfalls,
                "at": time.time(),
            }
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


asyncio.run(main(*sys.argv[1:]))
