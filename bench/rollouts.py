"""The operator rolling out a change to a fleet whose agents only report: sizes, writes, delays, memory, work.

The same with a tenth of the hosts beside it: what hosts read of a rollout has the same size for any number.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from bench import apis, liveness, maintenance, nodes, operator_account, processes
from bench.liveness import NAMESPACE, Operator
from bench.report import Goal, Row, Section
from bench.settings import Settings
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.rollout import SOAKING, STABLE, UNDONE, RolloutStatus
from nodemanager.client.auth import load
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.runtime.cache import Cache, Change

NAME = "rollouts"
STAGES = ("1", "5%", "25%", "100%")
FILES = 20
"""Of one KiB each: what a set says is as large as that of others."""
WAIT_SECONDS = 1200
GOOD, BAD = 2, 3
"""The revisions whose rollouts are measured."""


@dataclass
class Seen:
    """What was published of rollouts, and what that took."""

    rollout: int = 0
    """Bytes of status.rollout, at most."""
    config_set: int = 0
    """Bytes of the whole object, at most."""
    memory: float = 0.0
    """MiB of the operator, at most."""
    began: dict[tuple[int, int, str], float] = field(default_factory=dict)
    """When a stage of a revision was first in a phase."""
    writes: dict[tuple[int, int], float] = field(default_factory=dict)
    """How often the operator had written when a stage of a revision began."""
    status: RolloutStatus = field(default_factory=RolloutStatus)

    def hear(self, change: Change[ConfigSet]) -> None:
        """Take note of what is published."""
        if change.new is None or change.new.status.rollout is None:
            return
        self.status = change.new.status.rollout
        self.rollout = max(self.rollout, len(msgspec.json.encode(self.status)))
        self.began.setdefault((_number(self.status), self.status.stage, self.status.phase), time.monotonic())

    def per_stage(self, revision: int, end: float) -> list[float]:
        """Return how often the operator wrote in each stage of a revision."""
        stages = sorted(stage for number, stage in self.writes if number == revision and stage)
        return [
            later - one for one, later in pairwise([*(self.writes[revision, one] for one in stages), end])
        ]


def _number(status: RolloutStatus) -> int:
    """Return which revision it is about."""
    about = status.next or status.refused or status.stable
    return about.revision if about else 0


@dataclass(frozen=True, slots=True)
class Measured:
    """The rollouts of one fleet."""

    count: int
    seen: Seen
    applied: float
    """When the good change was applied."""
    ended: float
    writes: float
    """How often the operator had written by then."""
    cpu: float
    """Seconds that it worked for that."""
    undo: float
    """Seconds from the report of a host that failed until the undo was published."""
    last: dict[str, float]
    """When the last report of a stage was taken."""

    def decided(self) -> list[float]:
        """Return for each stage how long after the last report of its hosts it was found healthy."""
        stages = {key: at for key, at in self.seen.began.items() if key[0] == GOOD and key[2] == SOAKING}
        return [at - self.last[f"{GOOD}/{stage}"] for (_, stage, _), at in stages.items()]


def run(settings: Settings) -> Section:
    """Roll out a good and a bad change to two fleets."""
    counts = settings.pick(1_000, 30), settings.pick(10_000, 100)
    soak = settings.pick(5, 1)
    few, many = (_fleet(count, soak) for count in counts)
    pairs = zip(_rows(few), _rows(many), strict=True)
    rows = [row for pair in pairs for row in pair]
    stages = ", ".join(STAGES)
    return Section(NAME, f"a change in stages {stages} with {soak} s of soak, and one that fails", rows)


def _rows(found: Measured) -> list[Row]:
    count, seen = found.count, found.seen
    stages, first = seen.per_stage(GOOD, found.writes), seen.began[GOOD, 1, "Progressing"]
    decided, took = found.decided(), found.ended - found.applied
    return [
        Row(f"{count} hosts: status.rollout, at most", seen.rollout, "B", goal=Goal(2048, "B")),
        Row(f"{count} hosts: the whole ConfigSet, at most", seen.config_set / 1024, "KiB"),
        Row(f"{count} hosts: from apply to the first stage", (first - found.applied) * 1000, "ms"),
        Row(f"{count} hosts: from the last report of a stage to its decision, at most", max(decided), "s",
            goal=Goal(2.0, "s")),
        Row(f"{count} hosts: from the report of a failure to the undo", found.undo, "s", goal=Goal(2.0, "s")),
        Row(f"{count} hosts: writes of the operator for a stage, on average", sum(stages) / len(stages), ""),
        Row(f"{count} hosts: writes of the operator for a stage, at most", max(stages), ""),
        Row(f"{count} hosts: resident, at most", seen.memory, "MiB", goal=Goal(300.0, "MiB")),
        Row(f"{count} hosts: until all had it", took, "s"),
        Row(f"{count} hosts: CPU time of the operator", found.cpu, "s"),
        Row(f"{count} hosts: CPU time of the operator for each host", found.cpu * 1000 / count, "ms"),
    ]  # fmt: skip


def _fleet(count: int, soak: int) -> Measured:
    """Measure one fleet, with an API and an operator of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="nodemanager-bench-") as name,
        apis.ours(Path(name)) as api,
        liveness.operating(asyncio.run(operator_account.kubeconfig(api.kubeconfig))) as operator,
    ):
        return asyncio.run(_measure(api.kubeconfig, operator, count, soak))


async def _measure(kubeconfig: Path, operator: Operator, count: int, soak: int) -> Measured:
    client = Client(HttpTransport(load.discover(path=str(kubeconfig), environ={}, run=runner.run)))
    seen, cache = Seen(), Cache(client, CONFIG_SETS, Selection(NAMESPACE))
    cache.subscribe(seen.hear)
    following = asyncio.create_task(cache.run())
    try:
        await _joined(client, operator, [nodes.name(number) for number in range(count)])
        await client.create(CONFIG_SETS, _config_set("one"), NAMESPACE)
        with maintenance.agents(kubeconfig, "rollout_agents", str(BAD)) as agents:
            fleet = _Fleet(client, operator, seen)
            await fleet.until(lambda: seen.status.phase == STABLE)
            worked, applied = operator.cpu(), time.monotonic()
            await fleet.change("two", soak)
            await fleet.until(lambda: (_number(seen.status), seen.status.phase) == (GOOD, STABLE))
            ended, writes, cpu = time.monotonic(), operator.writes(), operator.cpu() - worked
            await fleet.change("three", soak)
            await fleet.until(lambda: (_number(seen.status), seen.status.phase) == (BAD, UNDONE))
            told, _ = await asyncio.to_thread(agents.communicate, b"", 60)
        last: dict[str, float] = json.loads(told)["last"]
        undo = seen.began[BAD, 0, "Undoing"] - last[f"{BAD}/1"]
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.close()
    return Measured(count, seen, applied, ended, writes, cpu, undo, last)


async def _joined(client: Client, operator: Operator, hosts: Sequence[str]) -> None:
    """Make the hosts, and wait until the operator has seen a sign of life of each."""
    await liveness.until(lambda: operator.cpu() > 0, 120)
    await maintenance.join(client, hosts, 1)
    deadline = time.monotonic() + WAIT_SECONDS
    while await asyncio.to_thread(operator.alive) < len(hosts):
        if time.monotonic() > deadline:
            raise processes.ChildFailed("cannot measure a rollout: the operator does not see all hosts")
        for host in hosts:  # a sign that came before it looked proves nothing to it
            await liveness.renew(client, host)
        await asyncio.sleep(1.0)


@dataclass(frozen=True, slots=True)
class _Fleet:
    client: Client
    operator: Operator
    seen: Seen

    async def change(self, content: str, soak: int) -> None:
        """Change what the set declares, and how that reaches hosts."""
        spec = {**_spec(content), "rollout": {"strategy": "Staged", "stages": STAGES, "soak": f"{soak}s"}}
        await self.client.patch(CONFIG_SETS, "web", NAMESPACE, MergePatch({"spec": spec}))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a rollout is so far, and see what it takes meanwhile."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise processes.ChildFailed(f"cannot measure a rollout: it is {self.seen.status}")
            self.seen.memory = max(self.seen.memory, apis.resident(self.operator.pid) / 1024)
            stage = _number(self.seen.status), self.seen.status.stage
            if stage not in self.seen.writes:
                self.seen.writes[stage] = await asyncio.to_thread(self.operator.writes)
                found = await self.client.get(CONFIG_SETS.untyped(), "web", NAMESPACE)
                self.seen.config_set = max(self.seen.config_set, len(msgspec.json.encode(found)))
            await asyncio.sleep(0.1)


def _spec(content: str) -> dict[str, Any]:
    files = [{"path": f"/etc/web/{number}", "content": f"{content} {'x' * 1000}"} for number in range(FILES)]
    return {"nodeSelector": {"matchLabels": {maintenance.GROUP: "g0"}}, "files": files}


def _config_set(content: str) -> dict[str, Any]:
    """Return the set as it is before: all hosts take it in one stage."""
    rollout = {"strategy": "Staged", "stages": ["100%"], "soak": "0"}
    return {"metadata": {"name": "web"}, "spec": {**_spec(content), "rollout": rollout}}
