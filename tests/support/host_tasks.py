"""Tasks of shipped templates on a real host, made in the name of the operator."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from nodemanager.api.maintenance.nodetask import NODE, NODE_TASKS, node_label
from nodemanager.client.auth import kubeconfig
from nodemanager.fleet.maintenance import steps
from nodemanager.host.process import runner
from nodemanager.kube import times
from support.accounts import operator_of
from support.clients import connected
from support.fleet import Host, until
from support.fleet_api import NAMESPACE
from support.template_scripts import operation, shipped

SECONDS = 240.0
TOKENS = itertools.count(1)


def do(host: Host, template: str, **parameters: str) -> dict[str, Any]:
    """Have a host do the steps of a template, and return its status once it has ended."""
    token = next(TOKENS)
    name = f"task-{token}"
    body = {
        "metadata": {"name": name, "labels": {NODE: node_label(host.name)}},
        "spec": {
            "nodeName": host.name,
            "fencingToken": token,
            "deadline": times.rfc3339(datetime.now(UTC) + timedelta(hours=1)),
            "steps": msgspec.to_builtins(steps.work([operation(template, parameters)], shipped()).steps),
        },
    }

    async def make() -> None:
        admin = kubeconfig.load(path=str(host.api.kubeconfig), environ={}, run=runner.run)
        async with connected(operator_of(admin, NAMESPACE)) as client:
            await client.create(NODE_TASKS, body, NAMESPACE)

    asyncio.run(make())

    def status() -> dict[str, Any]:
        found: dict[str, Any] = host.api.get("NodeTask", name).get("status", {})
        return found if found.get("finishedAt") else {}

    return until(status, f"the end of {template}", SECONDS)
