"""Runs in a test machine: does to its services what it is told on stdin, and says what came of it.

{"root": "/", "observe": [["cron", ""]]}    ->  {"facts": [{"known": true, ...}]}
{"root": "/", "do": "start", "name": "cron", "user": ""}  ->  {} or {"error": "...", "kind": "ToolFailed"}
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from typing import Any

from nodemanager.host.base import HostError, ServiceKey, ServiceManager
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.identity import identify
from nodemanager.host.process.environment import host_runner
from nodemanager.host.services.choose import choose


async def _serve(manager: ServiceManager, order: dict[str, Any]) -> dict[str, Any]:
    if "observe" in order:
        keys = [ServiceKey(*key) for key in order["observe"]]
        seen = await manager.observe(keys)
        return {"facts": [dataclasses.asdict(seen[key]) for key in keys]}
    key = ServiceKey(order["name"], order.get("user", ""))
    match order["do"]:
        case "enable" | "disable":
            await manager.enable(key, enabled=order["do"] == "enable")
        case "refresh":
            await manager.refresh(key.user)
        case deed:
            return {"returned": await getattr(manager, deed)(key)}
    return {}


async def _main() -> dict[str, Any]:
    order = json.load(sys.stdin)
    tree = Tree(order.get("root", "/"))
    manager = choose(tree, identify(tree), host_runner(tree.root), order.get("delay", 0.3))
    assert manager is not None
    before = set(sys.modules)
    assert not any(name.startswith("jeepney") for name in before), "jeepney is imported too early"
    try:
        return {"manager": manager.name, **await _serve(manager, order)}
    except HostError as error:
        return {"manager": manager.name, "error": str(error), "kind": type(error).__name__}


if __name__ == "__main__":
    json.dump(asyncio.run(_main()), sys.stdout)
