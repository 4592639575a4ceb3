"""The tasks of one host, done by the agent's own engine in a folder; what its steps did is in a file.

It is killed by being cancelled wherever it is, and finds in its folder what it knew.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nodemanager.agent.link import api_link
from nodemanager.agent.link.api_reachability import ApiReachability, SecretLimits
from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult, Performer
from nodemanager.agent.tasks.engine import TaskEngine
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.agent.tasks.reporter import TaskReporter
from nodemanager.agent.tasks.task_part import TaskGates, TaskPart, Turn
from nodemanager.agent.tasks.telling import TaskNews
from nodemanager.api.maintenance.nodetask import NODE, NODE_TASKS, node_label
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.host.files.tree import Tree
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectKey
from nodemanager.plan.tasks.admission import Situation
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.cache import Cache, CacheOptions
from nodemanager.runtime.metrics import Registry

QUICK = CacheOptions(backoff=Backoff(base=0.1, maximum=1.0, jitter=0.5))
LATE = timedelta(seconds=3)
"""How much later than it may begin a task may be seen to: it was claimed in time, and that took a moment."""


@dataclass
class Noted(Performer):
    """A program that notes in a file that it ran; whoever comes after a crash looks there."""

    path: Path
    lasts: Callable[[], float]
    fails: Callable[[], bool]

    async def perform(self, action: Any, attempt: Attempt) -> AttemptResult:
        del action
        await asyncio.sleep(self.lasts())
        with self.path.open("a") as file:
            file.write(f"{attempt.key}\n")
        await asyncio.sleep(self.lasts())
        return AttemptResult(succeeded=not self.fails(), changed=True)

    async def settle(self, action: Any, attempt: Attempt) -> AttemptResult:
        if self.path.exists() and attempt.key in self.path.read_text().splitlines():
            return AttemptResult(succeeded=True, changed=True)
        return INTERRUPTED if attempt.barred else await self.perform(action, attempt)


@dataclass
class FolderAgent:
    """One host; `start` and `end` it as often as you like."""

    config: ClientConfig
    key: ObjectKey
    folder: Path
    lasts: Callable[[], float]
    fails: Callable[[], bool]
    faults: list[str] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    _parts: list[asyncio.Task[None]] = field(default_factory=list)
    _client: Client | None = None

    @property
    def runs(self) -> bool:
        return bool(self._parts)

    def start(self) -> None:
        """Begin, or go on from what the folder says."""
        if self._parts:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._client = Client(HttpTransport(self.config))
        reach = ApiReachability(Vault(str(self.folder)), SecretLimits())
        link = api_link.link(self._client, reach, self.key)
        chosen = Selection(self.key.namespace, labels=f"{NODE}={node_label(self.key.name)}")
        tasks = Cache(link.client, NODE_TASKS, chosen, options=QUICK)
        reporter = TaskReporter(link, tasks, _now)
        noted = Noted(self.folder / "done", self.lasts, self.fails)

        def told(entry: Entry) -> None:
            self._check(entry)
            reporter.tell(entry)

        turn = Turn(LedgerFolder(Tree(str(self.folder))))

        async def engine() -> TaskEngine:
            return TaskEngine(turn.ledger, {"execution": noted}, "boot", _now, told)

        part = TaskPart(
            tasks, engine, reporter,
            TaskGates(
                lambda: False, lambda: None, lambda: not reach.offline, lambda: not reach.offline,
                reach.first_answer, lambda one: Situation(self.key.name, one.boot_id, one.now()),
            ),
            turn, TaskNews(link, Registry(), lambda: bool(turn.task)),
        )  # fmt: skip
        tasks.subscribe(lambda _change: part.changed())
        for one in (tasks.hurry, reporter.hurry, part.changed):
            reach.subscribe(one)
        self._parts = [asyncio.create_task(one.run()) for one in (tasks, reporter, part)]

    async def end(self) -> None:
        """Be killed."""
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        self._parts = []
        if self._client is not None:
            await self._client.close()

    def _check(self, entry: Entry) -> None:
        """Note a task that begins after its window has closed."""
        if entry.record.uid in self.begun or not any(one.attempts for one in entry.record.steps):
            return
        self.begun.add(entry.record.uid)
        latest = entry.spec.not_after
        if latest is not None and _now() > datetime.fromisoformat(latest) + LATE:
            self.faults.append(f"task {entry.name} began at {_now()}, and had to before {latest}")

    def effects(self) -> Counter[str]:
        """Return how often each step of each task was done."""
        path = self.folder / "done"
        keys = path.read_text().splitlines() if path.exists() else []
        return Counter(key.rpartition("/")[0] for key in keys)


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)
