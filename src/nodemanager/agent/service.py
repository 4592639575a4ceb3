"""The agent as parts of a process: caches, the loop, the sign of life, events, probes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from nodemanager import __version__
from nodemanager.agent.assembly import Body, BodyOptions, assemble
from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.memory import Memory
from nodemanager.agent.declared.references import ReferenceWatch
from nodemanager.agent.declared.sources import Patient, Sources
from nodemanager.agent.declared.wishes import Wishes
from nodemanager.agent.drift.delivery import Delivery
from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.drift.following import Following
from nodemanager.agent.drift.repair import RepairLoop
from nodemanager.agent.link.contact import Contact, SecretLimits
from nodemanager.agent.passes.housekeeping import Housekeeper
from nodemanager.agent.passes.notifies import Notifier
from nodemanager.agent.passes.reconcile import SETTLE_SECONDS, HostReconciler
from nodemanager.agent.passes.standing import Standing
from nodemanager.agent.report import heartbeat, status_sources
from nodemanager.agent.report.local_status import Board
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.agent.report.reporting import Reporter
from nodemanager.agent.report.sight import Eyes
from nodemanager.agent.report.status_sources import LastPass
from nodemanager.agent.upgrades.locks import SharedLocks
from nodemanager.agent.upgrades.upgrade import UpgradeSettings
from nodemanager.agent.upgrades.upgrade_part import UpgradeVoice
from nodemanager.agent.upgrades.upgrading import upgrades
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.process.runner import RunError, companion
from nodemanager.host.state.state_key import KeyRefused, cipher_of
from nodemanager.host.state.vault import Vault
from nodemanager.host.watches import host_watch
from nodemanager.kube import errors
from nodemanager.kube.core import LEASES
from nodemanager.kube.objects import ObjectKey
from nodemanager.rendering.renderer import Renderer
from nodemanager.runtime import probes
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.controller import Controller
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue

log = logging.getLogger("nodemanager.agent")
PERIOD = 600.0
"""Often enough for a foreign change not to last, and for alerts on `last applied` to stay quiet."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How the agent runs."""

    namespace: str = "nodemanager"
    body: BodyOptions = field(default_factory=BodyOptions)
    metrics_address: str = ":8080"
    probe_address: str = ":8081"
    period: float = PERIOD
    """Seconds after which to look again although nothing happened; 0 = never."""
    upgrades: UpgradeSettings = field(default_factory=UpgradeSettings)
    pod_identity: bool = False
    """Exchange the token of the pod we are in for that of the host it runs on."""
    secrets: SecretLimits = field(default_factory=SecretLimits)
    key_file: str = ""
    """What Secrets are encrypted with on disk; empty = with nothing."""
    realtime: bool = True
    """Whether to hear of changes on the host, and repair at once; if not, the period alone notices them."""


@dataclass(frozen=True, slots=True)
class Agent:
    """All parts of one agent."""

    manager: Manager
    reconciler: HostReconciler
    body: Body
    board: Board
    """What is known of this host, for `nodemanager status`."""
    last_pass: LastPass
    warn: Callable[[str, str], None]
    """Records an Event, of a reason and with a message, about this host."""
    contact: Contact
    drifts: DriftLog
    memory: Memory

    def close(self) -> None:
        """Give back what is held open."""
        for one in (self.drifts, self.memory, self.contact, self.reconciler.eyes, self.body):
            one.close()


def build(client: Client, options: AgentOptions, registry: Registry) -> Agent:
    """Wire an agent together; it does nothing before its manager runs."""
    namespace, root, state = options.namespace, options.body.root, options.body.state
    hostname = options.body.hostname or os.uname().nodename
    contact = Contact(Vault(root, state), options.secrets)
    client = _watched(client, contact, namespace, hostname)
    # One for restarts and upgrades: a host holds a lock once, however many want it there.
    locks = SharedLocks(client, namespace, hostname)
    body = assemble(replace(options.body, hostname=hostname), locks)
    body.converger.swift_locks = locks.at_once()
    here = Selection(namespace)
    config_sets, nodes = Cache(client, CONFIG_SETS, here), Cache(client, MANAGED_NODES, here)
    queue: WorkQueue[ObjectKey] = WorkQueue("host", metrics=registry)
    node = NodeObject(client, nodes, namespace, body.identity)
    events = EventRecorder(client, "nodemanager", hostname)
    memory = Memory(Vault(root, state), _secret_vault(options), node.key)
    drifts = DriftLog(root, state)
    references = ReferenceWatch(client, namespace, lambda: queue.add_after(node.key, SETTLE_SECONDS))
    renderer = Renderer(companion, answered=lambda _answer: body.progress.tick())
    standing = Standing(drifts, _now, time.monotonic, DriftWatch(memory))
    reconciler = HostReconciler(
        body=body,
        node=node,
        sources=Sources(config_sets, nodes, references, memory, contact),
        queue=queue,
        eyes=Eyes(Tree(body.tree.root), body.identity, body.converger.observer.run, client),
        reporter=Reporter(hostname, registry, events, time.time),
        now=_now,
        notifier=Notifier(client),
        housekeeper=Housekeeper(body.bucket, time.monotonic),
        drifts=drifts,
        standing=standing,
        wishes=Wishes(Contenter(renderer)),
        heartbeat_lease=heartbeat.lease_name(hostname),
        period=options.period,
    )
    board = Board(status_sources.of_process(hostname, namespace, body.tree.root))
    last_pass = _told_to(board, reconciler)
    controller = Controller(
        "host", last_pass.timed(reconciler.reconcile), queue=queue, metrics=registry, log=log,
        expected=(errors.KubeError, HostError, RunError),
    )  # fmt: skip
    manager = Manager(log=log, start_timeout=None)
    manager.add_cache(Patient(config_sets, reconciler.sources), Patient(nodes, reconciler.sources))
    beat = heartbeat.Heartbeat(client, namespace, hostname, _now)
    beat.unanswered = contact.failed
    manager.add(references, renderer, events, beat, controller)
    if options.realtime:
        _add_realtime(manager, reconciler)
    manager.add(contact, drifts, Delivery(client, drifts, node, contact))
    if body.tree.running:  # an image is not upgraded, and cannot be rebooted
        voice = UpgradeVoice(hostname, registry, events)
        manager.add(upgrades(body, client, reconciler, nodes, locks, voice, options.upgrades))
    servers = _servers(options, registry, _routes(manager, body, contact))
    manager.add_server(*servers)
    _report_on(servers, reconciler)
    _tell_build(registry, body.identity)
    for one in (config_sets, nodes, references):
        contact.subscribe(one.hurry)
    reconciler.start()
    reconciler.trigger()
    warn = _warning_of(nodes, node.key, events)
    beat.twin = _twin_of(reconciler, hostname, warn)
    return Agent(manager, reconciler, body, board, last_pass, warn, contact, drifts, memory)


def _routes(manager: Manager, body: Body, contact: Contact) -> probes.Routes:
    readiness = {"manager": manager.not_ready, "api": contact.not_ready}
    health = {"reconcile": body.progress.stuck}  # as the watchdog judges: a long package run is no hang
    return probes.Routes(health=health, readiness=readiness)


def _warning_of(
    nodes: Cache[ManagedNode], key: ObjectKey, events: EventRecorder
) -> Callable[[str, str], None]:
    """Return what records a warning about a host, once that is known to the API."""

    def warn(reason: str, message: str) -> None:
        if (own := nodes.get(key)) is not None:
            events.warning(MANAGED_NODES, own, reason, message)

    return warn


def _watched(client: Client, contact: Contact, namespace: str, hostname: str) -> Client:
    """Return a client whose requests tell how we stand with the API."""
    own = (  # not what it writes of itself: a policy may refuse that, and keep the host
        ("GET", MANAGED_NODES.path(namespace, hostname)),
        ("PATCH", LEASES.path(namespace, heartbeat.lease_name(hostname))),
    )
    return client.through(lambda transport: contact.watching(transport, own))


def _twin_of(
    reconciler: HostReconciler, hostname: str, warn: Callable[[str, str], None]
) -> Callable[[bool], None]:
    """Return what takes note that another machine begins, or ceases, to report under our name."""

    def twin(duplicated: bool) -> None:
        reconciler.duplicated = duplicated
        reconciler.soon()
        if duplicated:
            warn("DuplicateHost", f"another machine reports as {hostname}, too: give it another name")

    return twin


def _told_to(board: Board, reconciler: HostReconciler) -> LastPass:
    """Have a board show all that is known of the host, and learn of every change."""
    last_pass = LastPass(
        reconciler.node.key, board.changed, reconciler.local, lambda: reconciler.wishes.desired
    )
    reconciler.changed = reconciler.sources.contact.on_change = board.changed
    board.plug(last_pass.fill)
    board.plug(status_sources.of_journal(reconciler.body.journal))
    board.plug(status_sources.of_drifts(reconciler.drifts))
    board.plug(status_sources.of_watch(reconciler.standing))
    return last_pass


def _add_realtime(manager: Manager, reconciler: HostReconciler) -> None:
    """Hear of changes on the host, where it can tell of them, and repair them at once."""
    converger = reconciler.body.converger
    watch = host_watch.watch(reconciler.body.tree, converger.tools.packages, converger.tools.services)
    loop = RepairLoop(watch, converger, reconciler.standing, reconciler)
    following = Following(loop.follow, reconciler.standing, reconciler.report)
    reconciler.follow, reconciler.standing.who = following.follow, watch.who
    manager.add(watch, loop, following)


def _secret_vault(options: AgentOptions) -> Vault | None:
    """Return where Secrets are kept; None if they should be encrypted and cannot be."""
    try:
        key = options.key_file
        cipher = cipher_of(key, os.environ.get("CREDENTIALS_DIRECTORY", "")) if key else None
    except KeyRefused as error:
        log.warning("%s; Secrets are not kept, so a start without the API would lack them", error)
        return None
    return Vault(options.body.root, options.body.state, cipher)


def _servers(options: AgentOptions, registry: Registry, routes: probes.Routes) -> list[probes.ProbeServer]:
    served = (
        ("metrics", options.metrics_address, probes.Routes(metrics=registry)),
        ("health probes", options.probe_address, routes),
    )
    return [
        probes.ProbeServer(name, address, what)
        for name, text, what in served
        if (address := probes.parse_address(text))
    ]


def _report_on(servers: Sequence[probes.ProbeServer], reconciler: HostReconciler) -> None:
    """Have the status say which of them somebody keeps from listening."""
    reconciler.unserved = lambda: "; ".join(one.fault for one in servers if one.fault)
    for one in servers:
        one.on_change = reconciler.report


def _tell_build(registry: Registry, identity: Identity) -> None:
    """Publish the version under the name and labels that the Go project's dashboards know."""
    labels = ("version", "git_commit", "build_date", "goarch", "goos")
    family = registry.gauge("nodemanager_build_info", "Version of this program.", labels)
    family.labels(__version__, "", "", identity.arch, identity.system).set(1)


def _now() -> datetime:
    return datetime.now(UTC)
