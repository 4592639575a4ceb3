"""Reports tasks to the API: first the claim, then at most one write for each ended step.

Only the claim waits for it. A failed report is repeated later, with the state of that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from nodemanager.agent.link.api_link import ApiLink
from nodemanager.agent.tasks.ledger import Entry
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask, NodeTaskStatus, is_ended
from nodemanager.client.patches import MergePatch, difference
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.plan.tasks import reports
from nodemanager.plan.tasks.admission import RefusedTask
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.cache import Cache

log = logging.getLogger(__name__)
RETRY: Final = Backoff(base=1.0, maximum=60.0, jitter=0.5)
SETTLE_SECONDS: Final = 0.3
"""Steps that end at about the same time share a report."""
TRIES: Final = 5
"""How often a write is repeated because another program wrote the same object."""
Say = Callable[[NodeTask], NodeTaskStatus | None]
"""Returns the wanted status of a task; None = no report is needed any more."""


class TaskGone(Exception):
    """The task does not exist any more, or another program has ended it."""


class ClaimLost(Exception):
    """Another agent has claimed the task."""


@dataclass(eq=False, slots=True)
class TaskReporter:
    """Writes the status of tasks; also a part of the agent, which does so in the background."""

    link: ApiLink
    tasks: Cache[NodeTask]
    now: Callable[[], datetime]
    name: str = "reports of tasks"
    _owed: dict[str, tuple[str, Say]] = field(default_factory=dict)
    """By uid: the name of the task, and the report about it."""
    _written: dict[str, NodeTask] = field(default_factory=dict)
    """Current tasks as we wrote them last: the watch may not show that yet."""
    _told: dict[str, tuple[int, str]] = field(default_factory=dict)
    """How many steps of current tasks had ended, and why they paused, at the last report."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)

    async def claim(self, entry: Entry) -> None:
        """Write that the task is ours; raises `TaskGone`, `ClaimLost`, or KubeError if that is not known."""
        say = self._of(entry)

        def claim(task: NodeTask) -> NodeTaskStatus | None:
            if is_ended(task.status):
                raise TaskGone(entry.name)
            return say(task)

        await self._write(entry.record.uid, entry.name, claim)

    def tell(self, entry: Entry) -> None:
        """Have what is written down about a task reported, if it is worth a write: an end, or a pause."""
        uid, told = entry.record.uid, (entry.record.ends, entry.record.paused)
        if told != self._told.get(uid, (0, "")):
            self._told[uid] = told
            self.repeat(entry)
        elif uid in self._owed:  # it is written anyway: as it is now
            self._owed[uid] = entry.name, self._of(entry)
        if entry.record.phase.is_end:
            self._told.pop(uid, None)

    def repeat(self, entry: Entry) -> None:
        """Have it reported how far a task got, whether that was said before or not."""
        self._owe(entry.record.uid, entry.name, self._of(entry))

    def refuse(self, task: NodeTask, refused: RefusedTask) -> None:
        """Have it reported that a task is not done."""
        self._owe(
            task.metadata.uid, task.metadata.name, lambda now: reports.of_refusal(now, refused, self.now())
        )

    def wait(self, task: NodeTask, reason: str, message: str) -> None:
        """Have it reported that a task may not begin yet."""

        def say(now: NodeTask) -> NodeTaskStatus | None:
            return None if now.status.claim else reports.of_wait(now, reason, message, self.now())

        self._owe(task.metadata.uid, task.metadata.name, say)

    def forget(self, uid: str) -> None:
        """Say nothing more of a task."""
        self._owed.pop(uid, None)
        self._written.pop(uid, None)

    def hurry(self) -> None:
        """Try again now what failed: the API is there again."""
        self._hurry.set()

    async def run(self) -> None:
        """Report until cancelled."""
        failures = 0
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._wake.clear()
            try:
                await self._report()
                failures = 0
            except errors.KubeError as error:
                failures += 1
                again = logging.WARNING if failures == 1 else logging.DEBUG
                log.log(again, "cannot report on tasks, trying again: %s", error)
                self._wake.set()
                self._hurry.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY.delay(failures)):
                        await self._hurry.wait()

    async def _report(self) -> None:
        for uid, owed in list(self._owed.items()):
            with contextlib.suppress(TaskGone, ClaimLost):
                try:
                    await self._write(uid, *owed)
                except (errors.Invalid, errors.Forbidden, errors.BadRequest) as error:
                    log.warning(
                        "cannot report on task %s: %s", owed[0], error
                    )  # nor would it help to repeat it
            if self._owed.get(uid) is owed:
                del self._owed[uid]

    def _of(self, entry: Entry) -> Say:
        def say(task: NodeTask) -> NodeTaskStatus | None:
            claim = task.status.claim
            if claim is not None and claim.agent != entry.record.agent:
                raise ClaimLost
            return reports.of_record(task, entry.spec, entry.record, self.now())

        return say

    def _owe(self, uid: str, name: str, say: Say) -> None:
        self._owed[uid] = name, say
        self._wake.set()

    async def _write(self, uid: str, name: str, say: Say) -> None:
        client, namespace = self.link.client, self.link.key.namespace
        known = self._written.pop(uid, None) or self.tasks.get(ObjectKey(namespace, name))
        for left in range(TRIES, -1, -1):
            try:
                if known is None:
                    known = await client.get(NODE_TASKS, name, namespace)
                if known.metadata.uid != uid:
                    raise TaskGone(name)
                task = await self._patched(known, say(known) or known.status)
            except errors.NotFound:
                raise TaskGone(name) from None
            except errors.Conflict:
                if not left:
                    raise
                known = None
            else:
                if not is_ended(task.status):
                    self._written[uid] = task
                return

    async def _patched(self, task: NodeTask, status: NodeTaskStatus) -> NodeTask:
        """Write what is new in the status of a task as it was read; somebody else's write is a Conflict."""
        patch = difference(msgspec.to_builtins(task.status), msgspec.to_builtins(status))
        if not patch:
            return task
        meta = task.metadata
        body = MergePatch({"metadata": {"resourceVersion": meta.resource_version}, "status": patch})
        return await self.link.client.patch(NODE_TASKS, meta.name, meta.namespace, body, subresource="status")
