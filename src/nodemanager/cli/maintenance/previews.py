"""Has hosts asked, by the operator, what the upgrades of a plan would do, and waits for their answers."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

import click

from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_PREVIEW,
    NODE_MAINTENANCES,
    NodeMaintenance,
)
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask, is_ended
from nodemanager.cli.maintenance import objects
from nodemanager.cli.watch_printer import may_pass
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance import previews
from nodemanager.fleet.maintenance.previews import Asked, PreviewRequest
from nodemanager.kube import errors

POLL_SECONDS: Final = 1.0
SUCCEEDED: Final = "Succeeded"
UNANSWERED: Final = "Unanswered"


@dataclass(frozen=True, slots=True)
class PreviewAnswer:
    """What one host says."""

    state: str
    """Succeeded, another phase of its task, Unanswered, or the code of why it was not asked."""
    packages: Mapping[str, str]
    """Versions before and after, by name; of very many, some."""
    total: int = 0
    message: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it says what would be done."""
        return self.state == SUCCEEDED


async def ask(client: Client, namespace: str, name: str, plan_hash: str) -> PreviewRequest:
    """Write the request onto the maintenance, which is all that people may do."""
    request = PreviewRequest(plan_hash, secrets.token_hex(4))

    def noted(_found: NodeMaintenance) -> tuple[dict[str, object], str]:
        return {"metadata": {"annotations": {ANNOTATION_PREVIEW: request.text()}}}, ""

    try:
        await objects.change_one(client, namespace, name, "preview", noted)
    except errors.Forbidden as error:
        raise click.ClickException(
            f"cannot ask hosts of {name} for previews: {error}; the request is a change of the "
            "NodeMaintenance, which needs the role nodemanager-editor: ask somebody who has it"
        ) from error
    return request


async def follow(
    client: Client, namespace: str, name: str, request: PreviewRequest
) -> AsyncIterator[list[NodeTask]]:
    """Yield the tasks of a request as often as one of them has ended, until all have."""
    selection = Selection(namespace, f"{ANNOTATION_PREVIEW}={request.id}")
    known = -1
    while True:
        try:
            # In this order: once the request is off, all its tasks are there.
            found = await client.get(NODE_MAINTENANCES, name, namespace)
            tasks = (await client.list(NODE_TASKS, selection)).items
        except errors.KubeError as error:
            if not may_pass(error):
                raise
        else:
            taken = found.metadata.annotations.get(ANNOTATION_PREVIEW) != request.text()
            ended = sum(is_ended(task.status) for task in tasks)
            if taken and ended != known:
                known = ended
                yield tasks
            if taken and ended == len(tasks):
                return
        await asyncio.sleep(POLL_SECONDS)


async def take_back(client: Client, namespace: str, name: str, request: PreviewRequest) -> bool:
    """Remove an unanswered request; tell whether it was still there."""
    found = await client.get(NODE_MAINTENANCES, name, namespace)
    if found.metadata.annotations.get(ANNOTATION_PREVIEW) != request.text():
        return False
    version = found.metadata.resource_version
    note = {"resourceVersion": version, "annotations": {ANNOTATION_PREVIEW: None}}
    with contextlib.suppress(errors.KubeError):  # it was answered, and no user looks
        await client.patch(NODE_MAINTENANCES, name, namespace, MergePatch({"metadata": note}))
    return True


def answers(asked: Asked, tasks: list[NodeTask]) -> dict[str, PreviewAnswer]:
    """Return what is known of every host of a plan; pure."""
    found = {task.spec.node_name: task for task in tasks}
    said = {host: _answer(found.get(host)) for host in asked.hosts}
    said |= {host: PreviewAnswer(reason.value, {}) for host, reason in asked.unfit.items()}
    more = f"only the first {previews.MAX_HOSTS} hosts are asked"
    return said | {host: PreviewAnswer("NotAsked", {}, message=more) for host in asked.beyond}


def _answer(task: NodeTask | None) -> PreviewAnswer:
    if task is None:
        return PreviewAnswer(
            "NotAsked", {}, message="the operator did not ask it: it is at work there, or held"
        )
    status = task.status
    if not is_ended(status):
        return PreviewAnswer(
            UNANSWERED, {}, message=status.message or status.phase or "its agent has not taken it"
        )
    step = next((one for one in status.steps if one.name == previews.STEP), None)
    if status.phase != SUCCEEDED or step is None:
        return PreviewAnswer(status.phase, {}, message=status.message)
    number = step.output.split(" ", 1)[
        0
    ]  # evidence has some of very many packages; the output has their number
    total = int(number) if number.isdecimal() else len(step.evidence)
    return PreviewAnswer(SUCCEEDED, step.evidence, total)
