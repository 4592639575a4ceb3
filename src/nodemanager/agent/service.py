"""The agent as parts of a process: caches, the loop, the sign of life, events, probes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from nodemanager import __version__
from nodemanager.agent import heartbeat
from nodemanager.agent.assembly import Body, BodyOptions, assemble
from nodemanager.agent.housekeeping import Housekeeper
from nodemanager.agent.locks import SharedLocks
from nodemanager.agent.node_object import NodeObject
from nodemanager.agent.notifies import Notifier
from nodemanager.agent.reconcile import SETTLE_SECONDS, HostReconciler, Sources
from nodemanager.agent.references import ReferenceWatch
from nodemanager.agent.reporting import Reporter
from nodemanager.agent.sight import Eyes
from nodemanager.agent.upgrade import UpgradeSettings
from nodemanager.agent.upgrade_part import UpgradeVoice
from nodemanager.agent.upgrading import upgrades
from nodemanager.api import errors
from nodemanager.api.configset import CONFIG_SETS
from nodemanager.api.managednode import MANAGED_NODES
from nodemanager.api.objects import ObjectKey
from nodemanager.client.calls import Selection
from nodemanager.client.http import Client
from nodemanager.host.base import HostError
from nodemanager.host.identity import Identity
from nodemanager.host.runner import RunError
from nodemanager.runtime import probes
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.controller import Controller
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue

log = logging.getLogger("nodemanager.agent")
STUCK_SECONDS = 3600.0
"""A pass may install packages for a while; one that takes longer than this hangs."""
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


@dataclass(frozen=True, slots=True)
class Agent:
    """All parts of one agent."""

    manager: Manager
    reconciler: HostReconciler
    body: Body
    warn: Callable[[str, str], None]
    """Records an Event, of a reason and with a message, about this host."""


def build(client: Client, options: AgentOptions, registry: Registry) -> Agent:
    """Wire an agent together; it does nothing before its manager runs."""
    namespace = options.namespace
    hostname = options.body.hostname or os.uname().nodename
    # One for restarts and upgrades: a host holds a lock once, however many want it there.
    locks = SharedLocks(client, namespace, hostname)
    body = assemble(replace(options.body, hostname=hostname), locks)
    here = Selection(namespace)
    config_sets, nodes = Cache(client, CONFIG_SETS, here), Cache(client, MANAGED_NODES, here)
    queue: WorkQueue[ObjectKey] = WorkQueue("host", metrics=registry)
    node = NodeObject(client, nodes, namespace, body.identity)
    events = EventRecorder(client, "nodemanager", hostname)
    references = ReferenceWatch(client, namespace, lambda: queue.add_after(node.key, SETTLE_SECONDS))
    reconciler = HostReconciler(
        body=body,
        node=node,
        sources=Sources(config_sets, nodes, references),
        queue=queue,
        eyes=Eyes(body.tree, body.identity, body.converger.observer.run, client),
        reporter=Reporter(hostname, registry, events, time.time),
        now=_now,
        notifier=Notifier(client),
        housekeeper=Housekeeper(body.bucket, time.monotonic),
        heartbeat_lease=heartbeat.lease_name(hostname),
        period=options.period,
    )

    def warn(reason: str, message: str) -> None:
        if (own := nodes.get(node.key)) is not None:
            events.warning(MANAGED_NODES, own, reason, message)

    def twin(duplicated: bool) -> None:
        reconciler.duplicated = duplicated
        reconciler.soon()
        if duplicated:
            warn("DuplicateHost", f"another machine reports as {hostname}, too: give it another name")

    controller = Controller(
        "host", reconciler.reconcile, queue=queue, metrics=registry, log=log,
        expected=(errors.KubeError, HostError, RunError),
    )  # fmt: skip
    manager = Manager(log=log, start_timeout=None)
    manager.add_cache(config_sets, nodes)
    manager.add(references, events, heartbeat.Heartbeat(client, namespace, hostname, _now, twin), controller)
    if body.tree.root == "/":  # an image is not upgraded, and cannot be rebooted
        voice = UpgradeVoice(hostname, registry, events)
        manager.add(upgrades(body, client, reconciler, nodes, locks, voice, options.upgrades))
    _add_servers(manager, options, registry, controller)
    _tell_build(registry, body.identity)
    reconciler.start()
    reconciler.trigger()

    return Agent(manager, reconciler, body, warn)


def _add_servers(manager: Manager, options: AgentOptions, registry: Registry, controller: Controller) -> None:
    if address := probes.parse_address(options.metrics_address):
        manager.add_server(probes.ProbeServer("metrics", address, probes.Routes(metrics=registry)))
    if address := probes.parse_address(options.probe_address):
        checks = {"reconcile": lambda: controller.check(STUCK_SECONDS)}
        routes = probes.Routes(health=checks, readiness={"manager": manager.not_ready})
        manager.add_server(probes.ProbeServer("health probes", address, routes))


def _tell_build(registry: Registry, identity: Identity) -> None:
    """Publish the version under the name and labels that the Go project's dashboards know."""
    labels = ("version", "git_commit", "build_date", "goarch", "goos")
    family = registry.gauge("nodemanager_build_info", "Version of this program.", labels)
    family.labels(__version__, "", "", identity.arch, identity.system).set(1)


def _now() -> datetime:
    return datetime.now(UTC)
