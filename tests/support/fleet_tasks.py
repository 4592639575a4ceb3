"""Tasks of hosts that are joined to an API, made in the name of the operator, one after the other."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from nodemanager.api.maintenance.nodetask import NODE, NODE_TASKS, node_label
from nodemanager.client.auth import kubeconfig
from nodemanager.host.process import runner
from nodemanager.kube import times
from support.accounts import operator_of
from support.clients import connected
from support.fleet import until
from support.fleet_api import NAMESPACE, FleetApi

_TOKENS = itertools.count(1)


def give(api: FleetApi, host: str, *steps: Mapping[str, Any]) -> str:
    """Give a host a task, as the operator does, and return its name."""
    token = next(_TOKENS)
    body = {
        "metadata": {"name": f"task-{token}", "labels": {NODE: node_label(host)}},
        "spec": {
            "nodeName": host,
            "fencingToken": token,
            "deadline": times.rfc3339(datetime.now(UTC) + timedelta(hours=1)),
            "steps": list(steps),
        },
    }

    async def make() -> None:
        admin = kubeconfig.load(path=str(api.kubeconfig), environ={}, run=runner.run)
        async with connected(operator_of(admin, NAMESPACE)) as client:
            await client.create(NODE_TASKS, body, NAMESPACE)

    asyncio.run(make())
    return f"task-{token}"


def ended(api: FleetApi, name: str, seconds: float) -> dict[str, Any]:
    """Wait until a task has ended, and return its status."""

    def status() -> dict[str, Any]:
        found: dict[str, Any] = api.get("NodeTask", name).get("status", {})
        return found if found.get("finishedAt") else {}

    return until(status, f"the end of {name}", seconds)
