"""Maintenances of ten hosts while everything goes wrong, and what must hold all the time.

    for act in schedule(seed=7, seconds=1800, hosts=("h0", "h1")):
        act.at, act.kind, act.whom, act.seconds

Hosts are folders with the agent's own task engine. Two operators stand for election and are killed, the API
is killed and comes back, hosts fall silent, and people edit, delete and cordon.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_RETRY, NODE_MAINTENANCES
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import Transport
from nodemanager.client.patches import MergePatch
from nodemanager.controllers import assembly, disruption, node_maintenances, node_tasks
from nodemanager.controllers.assembly import Dependencies
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.controllers.node_maintenances import observing
from nodemanager.fleet.maintenance.claims import Claim
from nodemanager.host.process import runner
from nodemanager.kube import core, errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.metrics import Registry
from support.clients import connected
from support.either import Place
from support.folder_agent import FolderAgent
from support.maintenance_site import Mortal, Site, site_at
from support.pretend_agents import IGNORE
from support.server_process import NAMESPACE, Server

ENTRIES = (node_maintenances.REGISTRATION, disruption.REGISTRATION, node_tasks.REGISTRATION)
WEIGHTS: Final = {
    "kill": 6, "silence": 3, "outage": 2, "operator": 4, "budget": 3, "pause": 2, "window": 3, "label": 3,
    "cordon": 3, "delete": 1,
}  # fmt: skip
MOST: Final = 3
"""The highest budget that anybody sets."""
WINDOW: Final = "w"
SHUT: Final = {"schedules": [{"cron": "0 0 29 2 1", "duration": "1m"}], "always": None}
OPEN: Final = {"always": True, "schedules": None}
MINUTES: Final = {"schedules": [{"cron": "*/2 * * * *", "duration": "1m"}], "always": None}
WINDOWS: Final[dict[str, dict[str, Any]]] = {"open": OPEN, "shut": SHUT, "minutes": MINUTES}
SLACK: Final = timedelta(seconds=3)
"""How long the operator may take to hear of an edit."""
WHOLE: Final = ("all", "named")
"""Maintenances that mean all hosts, and so share one budget."""
WEB: Final = "web"
STEPS: Final = [{"name": name, "execution": {"argv": ["true"]}} for name in ("one", "two")]
PATIENCE: Final = 200.0


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that happens."""

    at: float
    kind: str
    whom: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:8.1f} {self.kind:8} {self.whom or '-':6} {self.seconds:.1f}"


def schedule(seed: int, seconds: float, hosts: Sequence[str]) -> list[Act]:
    """Return everything that will happen, in order; the same for the same arguments."""
    chance = random.Random(seed)
    longest = min(20.0, seconds / 6)
    acts: list[Act] = []
    at = 0.0
    while (at := at + chance.uniform(0.1, 0.5) * min(8.0, seconds / 5)) < seconds:
        kind = chance.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
        whom = {
            "operator": chance.choice(("0", "1")), "window": chance.choice(("open", "open", *WINDOWS)),
            "budget": chance.choice(WHOLE), "pause": chance.choice((*WHOLE, WEB)), "delete": WEB,
            "outage": "",
        }.get(kind, chance.choice(list(hosts)))  # fmt: skip
        acts.append(Act(at, kind, whom, chance.uniform(0.02, 0.5 if kind == "outage" else 1.0) * longest))
    return acts


@dataclass
class Chaos:
    """All of it; `do` each act, `rest` in between, and see what is wrong in `faults`."""

    site: Site
    server: Server
    hosts: dict[str, FolderAgent]
    chance: random.Random
    faults: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    visits: set[tuple[str, str, int]] = field(default_factory=set)
    busiest: int = 0
    foreign: set[str] = field(default_factory=set)
    silent: dict[str, datetime] = field(default_factory=dict)
    edits: list[tuple[datetime, str]] = field(default_factory=list)
    """When the window became which one."""
    goes_on: bool = True
    """Whether a maintenance that has ended is begun anew."""
    operators: dict[str, tuple[Mortal, Manager]] = field(default_factory=dict)
    _later: list[tuple[float, Callable[[], Awaitable[None]]]] = field(default_factory=list)
    _runs: int = 0

    # What happens

    async def do(self, act: Act) -> None:
        """Let something happen."""
        self.done[act.kind] += 1
        await getattr(self, f"_{act.kind}")(act.whom, act.seconds)

    async def _kill(self, host: str, _seconds: float) -> None:
        await self.hosts[host].end()
        self._at(0.3, lambda: self._awake(host))

    async def _awake(self, host: str) -> None:
        if host not in self.silent:
            self.hosts[host].start()

    async def _silence(self, host: str, seconds: float) -> None:
        if host in self.silent:
            return
        await self.hosts[host].end()
        await self.site.say(host, Alive="False", Ready="True")
        self.silent[host] = _now()
        self._at(seconds, lambda: self.heard(host))

    async def heard(self, host: str) -> None:
        """Have a host come back."""
        if self.silent.pop(host, None) is not None:
            await self.site.say(host, Alive="True", Ready="True")
            self.hosts[host].start()

    async def _outage(self, _whom: str, seconds: float) -> None:
        port = self.server.port
        await asyncio.to_thread(self.server.stop, signal.SIGKILL)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.server.start, port)

    async def _operator(self, name: str, _seconds: float) -> None:
        if name in self.operators:
            mortal, manager = self.operators[name]
            mortal.dead.set()
            manager.stop("it is killed")

    async def _budget(self, name: str, _seconds: float) -> None:
        await self._change(name, {"budget": {"maxUnavailable": self.chance.randint(1, MOST)}})

    async def _pause(self, name: str, seconds: float) -> None:
        await self._change(name, {"paused": True})
        self._at(seconds, lambda: self._change(name, {"paused": False}))

    async def _change(self, name: str, spec: dict[str, Any]) -> None:
        with contextlib.suppress(errors.NotFound):
            await self.site.change(name, **spec)

    async def _window(self, kind: str, _seconds: float) -> None:
        self.edits.append((_now(), kind))
        spec = MergePatch({"spec": WINDOWS[kind]})
        await self.site.client.patch(MAINTENANCE_WINDOWS, WINDOW, self.site.namespace, spec)
        self.edits.append((_now(), kind))

    async def _label(self, host: str, _seconds: float) -> None:
        role = self.chance.choice(("web", "db"))
        body = MergePatch({"metadata": {"labels": {"role": role}}})
        await self.site.client.patch(MANAGED_NODES, host, self.site.namespace, body)

    async def _cordon(self, host: str, seconds: float) -> None:
        """Have an administrator cordon a Node that takes pods, and nobody else do so at the same time."""
        if host not in self.site.nodes:
            return
        node = await self.site.client.get(NODES, host)
        if node.spec.unschedulable:
            return
        version = {"resourceVersion": node.metadata.resource_version}
        with contextlib.suppress(errors.Conflict):
            body = MergePatch({"metadata": version, "spec": {"unschedulable": True}})
            await self.site.client.patch(core.NODES, host, "", body)
            self.foreign.add(host)
            self._at(seconds, lambda: self.uncordon(host))

    async def uncordon(self, host: str) -> None:
        """Have the administrator let pods come again."""
        if host in self.foreign:
            self.foreign.remove(host)
            body = MergePatch({"spec": {"unschedulable": None}})
            await self.site.client.patch(core.NODES, host, "", body)

    async def _delete(self, name: str, seconds: float) -> None:
        with contextlib.suppress(errors.NotFound):
            await self.site.client.delete(NODE_MAINTENANCES, name, self.site.namespace)
        self._at(seconds, lambda: self.create(name))

    async def create(self, name: str) -> None:
        """Make a maintenance; one that is still being deleted is tried again."""
        chosen: dict[str, dict[str, Any]] = {
            "named": {"names": list(self.hosts)}, WEB: {"selector": {"matchLabels": {"role": "web"}}}
        }  # fmt: skip
        series = chosen.get(name, {})
        try:
            await self.site.maintenance(
                name, window=None, windowRef={"name": WINDOW}, series=series, stopAfter=3, backoffLimit=1,
                budget={"maxUnavailable": 1 if name == WEB else MOST}, disruption={"cordon": True},
                activeDeadlineSeconds=60, operations=[self._operation()],
            )  # fmt: skip
        except errors.AlreadyExists:
            self._at(0.5, lambda: self.create(name))

    def _operation(self) -> dict[str, Any]:
        self._runs += 1
        return {"name": "work", "type": "one-shot", "runID": f"r{self._runs}", "steps": STEPS}

    # Time

    def _at(self, seconds: float, what: Callable[[], Awaitable[None]]) -> None:
        self._later.append((time.monotonic() + seconds, what))

    async def rest(self, seconds: float) -> None:
        """Let time pass, look at everything, and do what is due."""
        end = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            for one in [one for one in self._later if one[0] <= now]:
                self._later.remove(one)
                await one[1]()
            await self._observe()
            if now >= end:
                return
            await asyncio.sleep(min(0.15, max(0.0, end - time.monotonic())))

    async def calm(self) -> None:
        """End the chaos: everybody is there, nothing is forbidden, and everything must end."""
        due, self._later = sorted(self._later, key=lambda one: one[0]), []
        for _, what in due:
            await what()  # what has to be tried again is done by `rest`
        for host in list(self.hosts):
            await self.heard(host)
            await self.uncordon(host)
            self.hosts[host].start()
        await self._window("open", 0)
        self.goes_on = False
        end = time.monotonic() + PATIENCE
        while not await self._ended():
            states = [(one.metadata.name, one.status.phase, one.status.waiting) for one in await self._all()]
            assert time.monotonic() < end, f"not at an end after {PATIENCE:g} s: {states}"
            await self.rest(0.3)

    async def _ended(self) -> bool:
        found = await self._all()
        for one in found:
            if one.status.phase == "Stopped" and one.status.run is not None:
                await self._retry(one.metadata.name, one.status.run.id)
        phases = {one.status.phase for one in found}
        return len(found) == 3 and phases <= {"Succeeded", "Failed"} and not await self.site.visits()

    # What is seen

    async def _all(self) -> list[Any]:
        return (await self.site.client.list(NODE_MAINTENANCES, Selection(self.site.namespace))).items

    async def _retry(self, name: str, run: str) -> None:
        body = MergePatch({"metadata": {"annotations": {ANNOTATION_RETRY: run}}})
        await self.site.client.patch(NODE_MAINTENANCES, name, self.site.namespace, body)

    async def _observe(self) -> None:
        """Look at one state of all hosts, and hold it against what must be true."""
        nodes = {one.metadata.name: one for one in (await self.site.client.list(NODES)).items}
        found = (await self.site.client.list(MANAGED_NODES, Selection(self.site.namespace))).items
        claims = {one.metadata.name: observing.claim_of(one) for one in found}
        held = {host: one for host, one in claims.items() if isinstance(one, Claim) and one.holds}
        self._check_budget(held)
        for host, claim in held.items():
            self._check_start(host, claim)
        self._check_cordons(nodes)
        self.faults += [fault for agent in self.hosts.values() for fault in agent.faults]
        for agent in self.hosts.values():
            agent.faults.clear()
        if self.goes_on:
            for one in await self._all():
                if one.status.phase in ("Succeeded", "Failed"):
                    await self._change(one.metadata.name, {"operations": [self._operation()]})
                elif one.status.phase == "Stopped" and one.status.run is not None:
                    await self._retry(one.metadata.name, one.status.run.id)

    def _check_budget(self, held: dict[str, Claim]) -> None:
        by_name = Counter(claim.maintenance for claim in held.values())
        whole = sum(by_name[name] for name in WHOLE)
        self.busiest = max(self.busiest, len(held))
        if whole > MOST or by_name[WEB] > 1:
            self.faults.append(f"too many hosts are in work: {dict(by_name)}, {sorted(held)}")

    def _check_start(self, host: str, claim: Claim) -> None:
        known = (host, f"{claim.uid}/{claim.run}", claim.attempt)
        if known in self.visits:
            return
        self.visits.add(known)
        if not self._was_open(claim.begun):
            self.faults.append(f"{host} begun with at {claim.begun} outside of the window: {self.edits[-4:]}")
        away = [one for one, since in self.silent.items() if since < claim.begun - SLACK]
        if host in away:
            self.faults.append(f"{host} begun with at {claim.begun}, silent since {self.silent[host]}")

    def _was_open(self, moment: datetime) -> bool:
        """Tell whether the window was open at a moment, for somebody who hears of edits a little later."""
        before = [kind for at, kind in self.edits if at <= moment - SLACK][-1:]
        since = [kind for at, kind in self.edits if moment - SLACK < at <= moment + SLACK]
        kinds = {*before, *since}
        return "open" in kinds or ("minutes" in kinds and moment.minute % 2 == 0)

    def _check_cordons(self, nodes: dict[str, Node]) -> None:
        for host in self.foreign:
            if not nodes[host].spec.unschedulable or nodes[host].mark is not None:
                self.faults.append(f"a foreign cordon was touched: {host}")

    def twice(self) -> list[str]:
        """Return steps that were done more than once."""
        counted = [agent.effects() for agent in self.hosts.values()]
        return [key for one in counted for key, times in one.items() if times > 1]

    def steps(self) -> int:
        """Return how many steps were done."""
        return sum(agent.effects().total() for agent in self.hosts.values())

    # Operators

    async def operate(self, name: str) -> None:
        """Be an operator that is started again whenever it ends."""
        while True:
            async with connected(self.site.own) as own:
                mortals: list[Mortal] = []

                def wrap(inner: Transport, mortals: list[Mortal] = mortals) -> Transport:
                    mortals.append(Mortal(inner))
                    return mortals[0]

                given = Dependencies(own.through(wrap), self.site.namespace, Registry(), runner.companion)
                manager = assembly.assemble(given, ENTRIES).manager
                self.operators[name] = mortals[0], manager
                with contextlib.suppress(Exception):  # it was killed, or lost its Lease in an outage
                    await manager.run()
            await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def chaos_in(folder: Path, seed: int, count: int = 10) -> AsyncIterator[Chaos]:
    """Everything that is needed, gone at the end. Every other host is a Kubernetes Node."""
    chance = random.Random(seed)
    server = Server(folder / "server")
    server.folder.mkdir()
    await asyncio.to_thread(server.start)
    parts: list[asyncio.Task[None]] = []
    chaos: Chaos | None = None
    try:
        async with site_at(Place(server.kubeconfig, NAMESPACE, folder)) as site:
            site.agents.behave = lambda _task: IGNORE
            chaos = Chaos(site, server, {}, chance)
            for number in range(count):
                name = await site.host(str(number), node=number % 2 == 0, role="web" if number < 5 else "db")
                chaos.hosts[name] = FolderAgent(
                    server.config(), ObjectKey(NAMESPACE, name), folder / name,
                    lambda: chance.uniform(0.0, 0.15), lambda: chance.random() < 0.01,
                )  # fmt: skip
            window = {"metadata": {"name": WINDOW}, "spec": {"always": True}}
            await site.client.create(MAINTENANCE_WINDOWS, window, NAMESPACE)
            chaos.edits.append((_now(), "open"))
            for agent in chaos.hosts.values():
                agent.start()
            parts = [asyncio.create_task(chaos.operate(name)) for name in ("0", "1")]
            for name in (*WHOLE, WEB):
                await chaos.create(name)
            try:
                yield chaos
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
                for agent in chaos.hosts.values():
                    await agent.end()
    finally:
        if server.process is not None:
            server.process.kill()
            server.process.wait(50)


def _now() -> datetime:
    return datetime.now(UTC)
