"""Follows a run until it has ended, and tells what happens to each host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from nodemanager.api.maintenance.nodemaintenance import LABEL_MAINTENANCE, NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask, node_label
from nodemanager.cli.maintenance import tries
from nodemanager.cli.watch_printer import may_pass
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube import errors

POLL_SECONDS: Final = 1.0
ENDS: Final = ("Succeeded", "Failed")
"""Phases of a maintenance of one-shots after which nothing comes."""
STOPPED: Final = "Stopped"
"""Too many hosts have failed: it waits for a person."""


@dataclass(frozen=True, slots=True)
class FollowedHost:
    """How far a host is."""

    state: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far a run is."""

    maintenance: NodeMaintenance
    hosts: Mapping[str, FollowedHost]
    """Hosts about which something is known."""

    @property
    def is_end(self) -> bool:
        """Whether no other state follows unless a person acts."""
        status = self.maintenance.status
        idle = status.hosts is None or not status.hosts.running
        return status.phase in ENDS or (status.phase == STOPPED and idle)

    @property
    def went_well(self) -> bool:
        """Whether it has ended, and every host is done."""
        counts = self.maintenance.status.hosts
        clean = counts is None or not (counts.failed or counts.skipped)
        return self.maintenance.status.phase == "Succeeded" and clean


async def follow(client: Client, name: str, namespace: str) -> AsyncIterator[Progressed]:
    """Yield how far a maintenance is, as often as there is something new, until it has ended."""
    selection = Selection(namespace, f"{LABEL_MAINTENANCE}={node_label(name)}")
    last: Progressed | None = None
    while last is None or not last.is_end:
        try:
            found = await client.get(NODE_MAINTENANCES, name, namespace)
            tasks = (await client.list(NODE_TASKS, selection)).items
        except errors.KubeError as error:
            if not may_pass(error):
                raise  # else the run goes on without us, and is looked at again
        else:
            progressed = Progressed(found, states(found, tasks))
            if progressed != last:
                last = progressed
                yield progressed
        if last is None or not last.is_end:
            await asyncio.sleep(POLL_SECONDS)


def states(found: NodeMaintenance, tasks: list[NodeTask]) -> dict[str, FollowedHost]:
    """Return how far hosts are: by their newest try, and by what the operator says of those that wait."""
    shown: dict[str, FollowedHost] = {}
    ours = [
        task for task in tasks if task.spec.reason is None or task.spec.reason.uid in ("", found.metadata.uid)
    ]
    for one in tries.tries(ours):
        status = one.task.status
        step = f"step {status.step}" if status.step and status.phase == "Running" else ""
        shown[one.task.spec.node_name] = FollowedHost(one.phase or "Pending", one.message or step)
    for wait in found.status.waiting:
        for host in wait.first:
            known = shown.get(host)
            if known is None or known.state in ("Pending", "Succeeded"):
                shown[host] = FollowedHost(wait.reason, wait.object)
    return shown
