"""Connects the part that carries out tasks with its host and API."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from nodemanager.agent.assembly import ManagedHost
from nodemanager.agent.audit.audit_trail import AuditTrail
from nodemanager.agent.declared.declarations import Declarations
from nodemanager.agent.declared.desired_state import DesiredState, DesiredStateCache
from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.agent.holds.keeping import HoldKeeper
from nodemanager.agent.link.api_link import ApiLink
from nodemanager.agent.report.local_status import Board
from nodemanager.agent.requests import Requests
from nodemanager.agent.tasks import showing
from nodemanager.agent.tasks.attempts import NOT_AT_EDGE, Exclusive, LatePerformer, Performer, for_all
from nodemanager.agent.tasks.engine import TaskEngine
from nodemanager.agent.tasks.files import Files
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.agent.tasks.packages import Packages
from nodemanager.agent.tasks.previews import PlanPreviews
from nodemanager.agent.tasks.probes import Probes
from nodemanager.agent.tasks.programs import Programs
from nodemanager.agent.tasks.reboots import Reboots
from nodemanager.agent.tasks.references import TaskReferences
from nodemanager.agent.tasks.reporter import TaskReporter
from nodemanager.agent.tasks.services import Services
from nodemanager.agent.tasks.system_upgrades import Base, SystemUpgrades
from nodemanager.agent.tasks.task_part import TaskGates, TaskPart, Turn
from nodemanager.agent.tasks.telling import TaskNews
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.maintenance.edge_steps import EDGE_ACTIONS
from nodemanager.api.maintenance.nodetask import NODE, NODE_TASKS, NodeTask, node_label
from nodemanager.api.maintenance.task_previews import ProposalRef, TaskPreview
from nodemanager.api.maintenance.task_steps import ACTIONS
from nodemanager.client.calls import Selection
from nodemanager.host.base import HostError, NotSupported
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import freebsd_update
from nodemanager.host.inventory.boot import Boot, HostBoot, current_boot
from nodemanager.host.process.runs import Runs
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Step
from nodemanager.plan.tasks import reports
from nodemanager.plan.tasks.admission import Situation
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.cache import Cache, CacheOptions
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.metrics import Registry

DOUBT: Final = 120.0
"""Seconds after our start in which another agent of our name may be unnoticed."""
WORK: Final = 3600.0
"""Seconds that a step may delay passes before these count as stuck."""
FIRST_PASS: Final = 60.0
"""Seconds until the declarations must be known, because versions that they require stay."""
SELDOM: Final = CacheOptions(backoff=Backoff(base=0.5, maximum=300.0, jitter=0.5))
"""How rarely an API without tasks, or without tasks for us, is asked."""


@dataclass(frozen=True, slots=True)
class OwnUpgrades:
    """What tasks ask the part that upgrades the host itself, and what they report to it."""

    under_way: Callable[[], bool] = lambda: False
    """Tells whether the host upgrades itself, as its ManagedNode declares."""
    used_slot: Callable[[], datetime | None] = lambda: None
    """Returns the slot of the last upgrade, whether host or operator began it."""
    turn_changed: Callable[[], None] = lambda: None
    """Called when a task begins or ends."""
    follow: Callable[[Entry], None] = lambda _entry: None
    """Called with every record of a task."""


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """What tasks need."""

    managed_host: ManagedHost
    link: ApiLink
    requests: Requests
    declared: Declarations
    holds: HoldKeeper
    duplicated: Callable[[], bool]
    """Tells whether another machine reports under our name."""
    upgrades: OwnUpgrades
    drift: DriftWatch
    trail: AuditTrail
    edge: Callable[[Programs, Exclusive], Mapping[str, Performer]] | None = None
    """Returns the performers for edge sites; None = the host is of none."""


class ImageBoot:
    """A root that was not booted: a folder, or an image."""

    async def boot_id(self) -> str:
        """Return that of the machine it is on."""
        return current_boot()

    async def reboot(self) -> None:
        """Refuse."""
        raise NotSupported("cannot reboot: the root of this host is a folder, which does not run")


@dataclass(frozen=True, slots=True)
class TaskWatch:
    """The cache of tasks as a part that nobody waits for: an API may have no such kind, or none for us."""

    tasks: Cache[NodeTask]

    @property
    def name(self) -> str:
        """The name of the cache."""
        return self.tasks.name

    async def run(self) -> None:
        """Follow the server until cancelled."""
        await self.tasks.run()


def turn_of(managed_host: ManagedHost) -> Turn:
    """Return whose turn it is on a host, with the tasks that are on its disk."""
    return Turn(LedgerFolder(Tree(managed_host.tree.root), f"{managed_host.state}/tasks"))


def add_tasks(manager: Manager, registry: Registry, setup: TaskSetup, turn: Turn, board: Board) -> TaskPart:
    """Add what sees, does and reports the tasks of this host; the board shows them."""
    link = setup.link
    here = Selection(link.key.namespace, labels=f"{NODE}={node_label(link.key.name)}")
    tasks: Cache[NodeTask] = Cache(link.client, NODE_TASKS, here, options=SELDOM)
    reporter = TaskReporter(link, tasks, _now)
    news = TaskNews(link, registry, lambda: bool(turn.task))

    def tell(entry: Entry) -> None:
        setup.trail.task(entry)
        reporter.tell(entry)
        board.changed()
        setup.upgrades.follow(entry)

    async def engine() -> TaskEngine:
        boot_id = await boot_of(setup.managed_host).boot_id()
        setup.trail.knows(turn.ledger.unfinished())
        host = setup.managed_host
        runs = Runs(Tree(host.tree.root), None, host.converger.observer.run, f"{host.state}/task-runs")
        performers, held = _performers(setup, boot_id, runs, turn.ledger), partial(_held, setup.holds)
        return TaskEngine(turn.ledger, performers, boot_id, _now, tell, held=held)

    part = TaskPart(tasks, engine, reporter, _gates(setup), turn, news, setup.upgrades.turn_changed)
    board.plug(showing.of_tasks(turn.entries, _now))
    # As servers: what was begun goes on, although a host that remembers nothing waits for its declarations.
    manager.add_server(TaskWatch(tasks), reporter, part)
    tasks.subscribe(lambda _change: part.changed())
    setup.holds.subscribe(part.changed)
    link.nodes.subscribe(lambda change: part.changed() if change.key == link.key else None)
    for one in (tasks.hurry, reporter.hurry, part.changed):
        link.reachability.subscribe(one)
    return part


def boot_of(managed_host: ManagedHost) -> Boot:
    """Return the life of a host between two boots."""
    if not managed_host.tree.running:
        return ImageBoot()
    return HostBoot(managed_host.converger.observer.run, root=managed_host.tree.root)


def performers_of(
    host: ManagedHost, states: DesiredStateCache, requests: Requests, may_act: Callable[[], bool]
) -> tuple[Packages, Reboots, Probes]:
    """Return who carries out what is also done without a task of the operator."""
    converger, tools = host.converger, host.converger.tools

    @contextlib.asynccontextmanager
    async def exclusive() -> AsyncIterator[None]:
        await _first_pass(states)
        # `upgrading` first, as everybody who takes both: see the repair loop.
        async with converger.upgrading, converger.host_lock:
            with host.progress.allowing(WORK):
                yield

    async def reboot_needed() -> str:
        return "" if tools.packages is None else await tools.packages.reboot_needed()

    return (
        Packages(tools.packages, lambda: states.pins, exclusive),
        Reboots(boot_of(host), reboot_needed, exclusive),
        Probes(converger.observer.run, tools.services, requests.settled, may_act),
    )


async def _first_pass(states: DesiredStateCache) -> None:
    """Wait until what is declared is known; where nobody ever tells this host of a ConfigSet, for a while."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FIRST_PASS):
            while states.last is None:  # noqa: ASYNC110 - once, and not for long
                await asyncio.sleep(0.1)


def base_of(host: ManagedHost) -> Base | None:
    """Return what upgrades the part of a host that is no package, where there is one."""
    run = host.converger.observer.run
    return partial(freebsd_update.upgrade_base, run) if host.identity.system == "freebsd" else None


def _gates(setup: TaskSetup) -> TaskGates:
    started, link = time.monotonic(), setup.link

    def situation(engine: TaskEngine) -> Situation:
        alone = time.monotonic() - started > DOUBT and not setup.duplicated()
        now, used = engine.now(), setup.upgrades.used_slot()
        return Situation(link.key.name, engine.boot_id, now, sure=alone, used_slot=used)

    def obstacle() -> tuple[str, str] | None:
        if why := _held(setup.holds):
            return reports.HELD, f"it waits, for {why}"
        if setup.duplicated():
            return reports.DUPLICATED, "it waits: another machine reports under the name of this host, too"
        if setup.upgrades.under_way():
            return reports.UPGRADING, "it waits: the host is being upgraded, as its ManagedNode says"
        return None

    def take_lock() -> bool:
        taken = setup.managed_host.lock.take(make=True)
        if taken:
            setup.managed_host.journal.reload()  # as the first pass does, who is not the first now
        return taken

    reach, nodes = link.reachability, link.nodes
    return TaskGates(
        take_lock, obstacle, lambda: not reach.offline,
        lambda: nodes.has_synced and not reach.offline, reach.first_answer, situation,
    )  # fmt: skip


def _held(holds: HoldKeeper) -> str:
    """Return why nothing may be changed now, as the API and root say; empty = it may."""
    holds.reload()
    hold = holds.permission().hold
    return f"this host is held: {hold.words()}" if hold is not None else ""


def _performers(setup: TaskSetup, boot_id: str, runs: Runs, ledger: LedgerFolder) -> dict[str, Performer]:
    host, declared = setup.managed_host, setup.declared
    converger, tools = host.converger, host.converger.tools
    states = declared.desired_states
    sets = partial(_sets, states)
    references = TaskReferences(setup.link, declared.sources, states.contenter.renderer, sets)
    packages, reboots, probes = performers_of(host, states, setup.requests, setup.holds.may_act)
    exclusive = packages.exclusive

    async def plan() -> Sequence[Step]:
        state = states.last
        if state is None:
            raise HostError("cannot tell what a pass would do: what is declared is not known yet; try again")
        return await converger.preview(state.desired, state.contents)

    def observe_only(state: DesiredState) -> frozenset[ResourceId]:
        return setup.drift.observe_only(state.declared, state.observed)

    programs = Programs(runs, boot_id, references.secrets)
    at_edge = setup.edge(programs, exclusive) if setup.edge else dict.fromkeys(EDGE_ACTIONS, NOT_AT_EDGE)

    async def propose(ref: ProposalRef) -> TaskPreview:
        from nodemanager.agent.tasks.proposals import Proposals  # here: few hosts are ever asked

        first_pass = partial(_first_pass, states)
        proposals = Proposals(converger, declared, references, exclusive, first_pass, observe_only)
        return await proposals.answer(ref)

    def upgrade_agent() -> Performer:
        from nodemanager.agent.tasks import agent_upgrades

        return agent_upgrades.of_host(host, lambda: not setup.link.reachability.offline, exclusive)

    performers: dict[str, Performer] = {
        "packages": SystemUpgrades(
            replace(packages, earlier=lambda one: ledger.inverse(one.task, one.step)),
            reboots.needed,
            base_of(host),
        ),
        "service": Services(tools.services, exclusive),
        "execution": programs,
        "reboot": replace(reboots, ready=setup.trail.settle),
        "probe": probes,
        "file": Files(converger, references.contents, exclusive, lambda: _paths(declared)),
        "agent_upgrade": LatePerformer(upgrade_agent),
        "preview": PlanPreviews(tools.packages, lambda: states.pins, plan, exclusive, propose),
        **at_edge,
    }
    return for_all(ACTIONS, performers)


async def _sets(states: DesiredStateCache) -> Sequence[ConfigSet]:
    await _first_pass(states)
    if states.last is None:
        raise HostError("cannot read the data of this host: its ConfigSets are not known yet; try again")
    return states.sets


def _paths(declared: Declarations) -> frozenset[str]:
    state = declared.desired_states.last
    return frozenset() if state is None else state.paths


def _now() -> datetime:
    return datetime.now(UTC)
