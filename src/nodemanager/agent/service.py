"""The agent as parts of a process: caches, the loop, the heartbeat, events, probes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from nodemanager.agent import served, upgrade_proof
from nodemanager.agent.assembly import ManagedHost, PassSetup, assemble
from nodemanager.agent.audit.audit_trail import AuditTrail, RecordedDrifts
from nodemanager.agent.declared import default_rollout, foreign_sets
from nodemanager.agent.declared.changes import DeclaredChanges
from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declarations import Declarations
from nodemanager.agent.declared.desired_state import DesiredStateCache
from nodemanager.agent.declared.known_sets import KnownSets, listed
from nodemanager.agent.declared.memory import InputsMemory
from nodemanager.agent.declared.references import ReferenceWatch
from nodemanager.agent.declared.rendered_memory import RenderedMemory
from nodemanager.agent.declared.sources import DeclaredSources, OptionalCache
from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.agent.drift.delivery import DriftDelivery
from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.drift.repair import RepairLoop
from nodemanager.agent.drift.repair_turn import RepairTurn
from nodemanager.agent.drift.watch_retry import WatchRetry
from nodemanager.agent.holds import keeping
from nodemanager.agent.holds.keeping import HoldKeeper
from nodemanager.agent.holds.set_windows import SetWindows
from nodemanager.agent.link import api_link
from nodemanager.agent.link.api_link import ApiLink
from nodemanager.agent.link.api_reachability import ApiReachability
from nodemanager.agent.link.token_renewal import TokenRenewal, TokenReporter
from nodemanager.agent.options import AgentOptions, OwnCredential, secret_vault
from nodemanager.agent.parts import Agent
from nodemanager.agent.passes.host_pass import HostPass, PassReports, watch_nothing
from nodemanager.agent.passes.host_state import HostState, nobody
from nodemanager.agent.passes.housekeeping import Housekeeper
from nodemanager.agent.passes.notifies import NotifiesAnnotator
from nodemanager.agent.passes.pass_schedule import PassSchedule
from nodemanager.agent.passes.pruning import Pruner
from nodemanager.agent.passes.underway import LONG_SECONDS
from nodemanager.agent.report import contributions, host_inventory, status_sources
from nodemanager.agent.report.contributions import DuplicateHost
from nodemanager.agent.report.heartbeat import HeartbeatSender
from nodemanager.agent.report.host_inspector import HostInspector
from nodemanager.agent.report.host_report import HostReport
from nodemanager.agent.report.local_status import Board
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.agent.report.repair_reports import RepairReports
from nodemanager.agent.report.reporting import Reporter
from nodemanager.agent.report.status_sources import LastPass
from nodemanager.agent.report.status_writer import Contribution, EarlyPart, StatusWriter
from nodemanager.agent.requests import Requests
from nodemanager.agent.tasks.tasking import OwnUpgrades, TaskSetup, add_tasks, turn_of
from nodemanager.agent.upgrades.upgrade_part import UpgradePart
from nodemanager.agent.upgrades.upgrade_reporter import UpgradeReporter
from nodemanager.agent.upgrades.upgrading import for_tasks, upgrades
from nodemanager.api.common import choosing
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.rollout import SCALE
from nodemanager.client.verbs import Client
from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.runner import RunError, companion
from nodemanager.host.state.vault import Vault
from nodemanager.host.watches import host_watch
from nodemanager.host.watches.host_watch import HostWatch
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.plan.desired import Desired
from nodemanager.rendering.renderer import Renderer
from nodemanager.runtime import controller
from nodemanager.runtime.controller import Controller
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue

if TYPE_CHECKING:
    from nodemanager.agent.edge.edge_watch import EdgeHost

log = logging.getLogger("nodemanager.agent")


@dataclass(frozen=True, slots=True)
class _Base:
    """The parts that others are made from; they know none of these."""

    options: AgentOptions
    registry: Registry
    board: Board
    manager: Manager
    requests: Requests
    link: ApiLink
    holds: HoldKeeper
    windows: SetWindows
    managed_host: ManagedHost
    trail: AuditTrail


def build(
    client: Client,
    options: AgentOptions,
    registry: Registry,
    own: OwnCredential = OwnCredential(),  # noqa: B008 - frozen
    on_stop: Callable[[], None] = lambda: None,
) -> Agent:
    """Wire an agent together; it does nothing before its manager runs, which calls `on_stop` at its end.

    Each part is given those that it needs, which were made before it. Who has something to ask of one
    that is made later asks `Requests`.
    """
    base = _base(client, options, registry, on_stop)
    watch = _watch(base)
    drifts = DriftLog(options.host.root, options.host.state)
    declared = _declarations(base)
    memory = declared.sources.memory
    link, turn = base.link, RepairTurn(base.requests.pass_now)
    link.nodes.subscribe(lambda change: turn.heard(change.new) if change.key == link.key else None)
    recorded, who = RecordedDrifts(drifts, base.trail), watch.who if watch else nobody
    host_state = HostState(recorded, _now, time.monotonic, DriftWatch(memory), who=who, turn=turn)
    duplicate = DuplicateHost(base.requests, base.link.warn)
    others: list[Contribution] = [duplicate.contribute, base.holds.contribute, base.trail.contribute]
    others += _contributions(base, declared, own)
    edge = _edge(base)
    others += _add_work(base, declared, duplicate, host_state.watch, edge)
    others.append(contributions.of_left_drifts(host_state, registry, base.link.key.name))
    host = HostReport(host_state, drifts, base.managed_host.converger, memory)
    early = contributions.NoEdge() if edge is None else edge.watch
    writer = _status_writer(base, declared, host, others, early)
    host_pass = _host_pass(base, declared, writer, watch)
    last_pass = _add_loop(base, host_pass)
    _add_link(base, declared, drifts, duplicate, writer)
    _show(base, host_state, drifts, last_pass)
    DeclaredChanges(declared, base.requests, lambda: duplicate.duplicated).start()
    base.requests.pass_now()
    made = base.manager, base.managed_host, base.board, last_pass, host_pass
    return Agent(*made, drifts, base.trail, base.holds)


def _base(client: Client, options: AgentOptions, registry: Registry, on_stop: Callable[[], None]) -> _Base:
    hostname = options.host.hostname or os.uname().nodename
    key = ObjectKey(options.namespace, hostname)
    board = Board()
    reachability = ApiReachability(
        Vault(options.host.root, options.host.state), options.secrets, changed=board.changed
    )
    link = api_link.link(client, reachability, key)
    requests = Requests(WorkQueue("host", metrics=registry), key, board.changed)
    holds = HoldKeeper(Vault(options.host.root, options.host.state), requests.pass_now)
    windows = SetWindows(requests.pass_now)
    passes = PassSetup(
        LONG_SECONDS, requests.pass_now, requests.status_soon, holds.may_act, windows.shut
    )  # fmt: skip
    managed_host = assemble(
        replace(options.host, hostname=hostname), link.locks, link.locks.at_once(), passes
    )
    served.tell_build(registry, managed_host.identity)
    manager = Manager(log=log, start_timeout=None, on_stop=on_stop)
    _add_holds(manager, registry, link, holds)
    trail = AuditTrail(
        options.host.root, options.host.state, hostname,
        every_drift=options.every_drift, ask=requests.status_soon,
    )  # fmt: skip
    manager.add_server(windows, trail)  # as a server: it ends after all that it records
    return _Base(options, registry, board, manager, requests, link, holds, windows, managed_host, trail)


def _add_holds(manager: Manager, registry: Registry, link: ApiLink, holds: HoldKeeper) -> None:
    """Have holds heard of, from the API and from root on this host, and their ends noticed."""
    hears = keeping.of_node(holds, link.events)
    link.nodes.subscribe(lambda change: hears(change) if change.key == link.key else None)
    keeping.count(holds, registry, link.key.name)
    manager.add_server(holds)


def _declarations(base: _Base) -> Declarations:
    """Return what is declared for the host, with what follows it."""
    link, managed_host = base.link, base.managed_host
    references = ReferenceWatch(link.client, link.key.namespace, base.requests.pass_soon)
    plain = Vault(base.options.host.root, base.options.host.state)
    memory = InputsMemory(plain, secret_vault(base.options), link.key)
    sources = DeclaredSources(link.config_sets, link.nodes, references, memory, link.reachability)
    renderer = Renderer(companion, answered=lambda _answer: managed_host.progress.tick())
    rendered = RenderedMemory(plain)
    used = any(file.template for one in memory.inputs().config_sets for file in one.spec.files)
    if used and not rendered.knows_any:
        renderer.begin()  # it takes as long to start as the API to answer
    base.manager.add_cache(OptionalCache(link.config_sets, sources), OptionalCache(link.nodes, sources))
    base.manager.add(references)
    # They end last: a pass that is under way when we stop still renders.
    base.manager.add_server(renderer, rendered)
    custom = base.options.host.labels
    node = NodeObject(link.client, link.nodes, link.key.namespace, managed_host.identity, custom)
    before = memory.node  # until a pass knows better, sets are trimmed for what the host was, or will be
    labels = before.metadata.labels if before else {**managed_host.identity.labels(), **custom}
    link.config_sets.trim_by(partial(foreign_sets.trimmed, labels=labels))
    first_look = partial(
        host_inventory.as_reported,
        root=managed_host.tree.root,
        identity=managed_host.identity,
        run=managed_host.converger.observer.run,
    )
    desired_states = DesiredStateCache(Contenter(renderer, rendered.cache))
    staged = StagedSets(
        lambda name: link.client.get(CONFIG_SET_REVISIONS, name, link.key.namespace),
        lambda: default_rollout.is_staged(link.client, link.key.namespace),
        lambda: memory.inputs().config_sets,
        lambda: link.reachability.offline,
        base.requests.pass_soon,
    )
    relist = partial(listed, link.client, link.key.namespace)
    # Not all hosts in the same second.
    confirm = base.options.prune_confirm * (1 + choosing.position(link.key.name, "prune") / SCALE / 6)
    known_sets = KnownSets(sources, managed_host.ledger, relist, base.requests.pass_soon, confirm=confirm)
    return Declarations(
        node, managed_host.identity, sources, staged, desired_states, first_look, base.holds.look,
        base.windows.heard, known_sets,
    )  # fmt: skip


def _contributions(base: _Base, declared: Declarations, own: OwnCredential) -> list[Contribution]:
    """Return what servers, labels and the host's own token have to say in the status."""
    options, link, managed_host, requests = base.options, base.link, base.managed_host, base.requests
    checked = served.routes(base.manager, managed_host.progress, link.reachability)
    addresses = options.metrics_address, options.probe_address
    servers = served.servers(*addresses, base.registry, checked, requests.status_soon)
    base.manager.add_server(*servers)
    found = [contributions.of_servers(servers), _token_contribution(base, own)]
    found.append(contributions.of_labels(lambda: declared.node.refusal))
    found.append(contributions.of_orphans(managed_host.ledger, base.registry, link.key.name))
    return found


def _add_work(
    base: _Base, declared: Declarations, duplicate: DuplicateHost, drift: DriftWatch, edge: EdgeHost | None
) -> list[Contribution]:
    """Add what upgrades the host and what does tasks; one of them at a time."""
    link, managed_host, requests = base.link, base.managed_host, base.requests
    turn = turn_of(managed_host)
    part: UpgradePart | None = None
    if managed_host.tree.running:  # an image is not upgraded, and cannot be rebooted
        told = UpgradeReporter(link.key.name, base.registry, link.events, base.trail.upgraded)
        part = upgrades(
            managed_host, link, requests, declared.desired_states, base.holds, told,
            base.options.upgrades, turn,
        )  # fmt: skip
        base.manager.add(part)
    setup = TaskSetup(
        managed_host, link, requests, declared, base.holds, lambda: duplicate.duplicated,
        OwnUpgrades() if part is None else for_tasks(part),
        drift, base.trail,
        None if edge is None else edge.performers,
    )  # fmt: skip
    add_tasks(base.manager, base.registry, setup, turn, base.board)
    return [] if part is None else [contributions.of_upgrades(part)]


def _edge(base: _Base) -> EdgeHost | None:
    """Have a host of an edge site looked at; a plain one pays nothing for it, not even an import."""
    if not base.options.edge or not base.managed_host.tree.running:
        return None
    from nodemanager.agent.edge import edge_watch

    return edge_watch.add(base.manager, base.managed_host, base.requests)


def _token_contribution(base: _Base, credential: OwnCredential) -> Contribution:
    """Have the host's own token followed and renewed, if there is one, and say how that goes."""
    own, watch = credential.renewed, credential.watch
    if watch is not None:
        base.manager.add_server(watch)
        watch.subscribe(base.link.reachability.try_again)
    if own is None:
        return contributions.of_token(None)
    namespace, hostname = base.link.key
    reporter = TokenReporter(base.registry, base.link.warn, base.requests.pass_soon)
    renewal = TokenRenewal(own.client, own.config, own.token, own.path, hostname, namespace, reporter)
    if watch is not None:
        watch.subscribe(renewal.replaced)
    base.manager.add_server(renewal)  # first: it must not wait for caches, which need more than a token
    base.board.plug(status_sources.of_token(own.token))
    return contributions.of_token(renewal.condition)


def _status_writer(
    base: _Base, declared: Declarations, host: HostReport, others: Sequence[Contribution], early: EarlyPart
) -> StatusWriter:
    managed_host, link = base.managed_host, base.link
    inspector = HostInspector(
        Tree(managed_host.tree.root), managed_host.identity, managed_host.converger.observer.run, link.client
    )
    told = declared.node, link.reachability, base.requests, host, inspector, others, _now
    return StatusWriter(*told, base.trail.settle, early)


def _host_pass(
    base: _Base, declared: Declarations, writer: StatusWriter, watch: HostWatch | None
) -> HostPass:
    converger, host_state, trail = base.managed_host.converger, writer.host.host_state, base.trail
    reporter = Reporter(base.link.key.name, base.registry, base.link.events, time.time)
    follow: Callable[[], Awaitable[None]] = watch_nothing
    ahead: Callable[[Desired], Awaitable[None]] = watch_nothing
    if watch is not None:
        told = RepairReports(reporter, writer, partial(trail.changed, ()))
        repairs = RepairLoop(watch, converger, host_state, told)
        watch_retry = WatchRetry(repairs.follow, host_state, writer.request)
        base.manager.add(watch, repairs, watch_retry)
        follow, ahead = watch_retry.follow, repairs.follow_ahead
    housekeeper = Housekeeper(base.managed_host.bucket, time.monotonic, base.holds.may_act)
    schedule = PassSchedule(housekeeper, base.options.period)
    proof = upgrade_proof.of_host(base.managed_host)
    reports = PassReports(writer, reporter, NotifiesAnnotator(base.link.client), proof.passed, trail.changed)
    grace = base.options.prune_grace
    pruner = Pruner(converger, base.managed_host.ledger, base.requests.pass_soon, grace)
    parts = declared, converger, host_state, schedule, base.requests, reports
    return HostPass(*parts, follow, pruner, ahead)


def _add_loop(base: _Base, host_pass: HostPass) -> LastPass:
    """Add what answers requests: one worker for passes, and one for the status, which waits for none."""
    writer, requests = host_pass.reports.writer, base.requests
    last_pass = LastPass(
        base.link.key, base.board.changed, writer.local, lambda: host_pass.declared.desired_states.desired
    )

    async def answer(key: ObjectKey) -> controller.ReconcileResult | None:
        if key != requests.status_key:
            return await host_pass.run()
        await writer.answer()
        return None

    loop = Controller(
        "host", last_pass.timed(answer), queue=requests.queue, metrics=base.registry, log=log, concurrency=2,
        expected=(errors.KubeError, HostError, RunError),
    )  # fmt: skip
    base.manager.add(loop, base.managed_host.converger.background)
    return last_pass


def _add_link(
    base: _Base, declared: Declarations, drifts: DriftLog, duplicate: DuplicateHost, writer: StatusWriter
) -> None:
    """Add what tells the API that we live and what drifted, and what notices when it is back."""
    link = base.link
    beat = HeartbeatSender(
        link.client, link.key, _now, unanswered=link.reachability.failed, duplicated=duplicate.noticed
    )
    delivery = DriftDelivery(link.client, drifts, declared.node, link.reachability, writer.request)
    base.manager.add(link.events, beat, link.reachability, drifts, delivery)
    link.hurry_when_back(declared.sources.references.hurry, beat.hurry)


def _show(base: _Base, host_state: HostState, drifts: DriftLog, last_pass: LastPass) -> None:
    """Have the board show all that is known of the host."""
    name, root = base.link.key.name, base.managed_host.tree.root
    for source in (
        status_sources.of_process(name, base.options.namespace, root),
        last_pass.fill,
        base.holds.fill,
        status_sources.of_journal(base.managed_host.journal),
        status_sources.of_drifts(drifts),
        status_sources.of_watch(host_state),
    ):
        base.board.plug(source)


def _watch(base: _Base) -> HostWatch | None:
    """Return what hears of changes on the host; None = nobody shall."""
    if not base.options.realtime:
        return None
    tools = base.managed_host.converger.tools
    return host_watch.watch(base.managed_host.tree, tools.packages, tools.services)


def _now() -> datetime:
    return datetime.now(UTC)
