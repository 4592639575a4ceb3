"""The agent as parts of a process: caches, the loop, the sign of life, events, probes."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nodemanager.agent import heartbeat
from nodemanager.agent.assembly import Body, BodyOptions, assemble
from nodemanager.agent.locks import SharedLocks
from nodemanager.agent.node_object import NodeObject
from nodemanager.agent.reconcile import HostReconciler, Sources
from nodemanager.agent.references import ReferenceWatch
from nodemanager.agent.reporting import Reporter
from nodemanager.agent.sight import Eyes
from nodemanager.api import errors
from nodemanager.api.configset import CONFIG_SETS
from nodemanager.api.managednode import MANAGED_NODES
from nodemanager.api.objects import ObjectKey
from nodemanager.client.calls import Selection
from nodemanager.client.http import Client
from nodemanager.host.base import HostError
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


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How the agent runs."""

    namespace: str = "nodemanager"
    body: BodyOptions = field(default_factory=BodyOptions)
    metrics_address: str = ":8080"
    probe_address: str = ":8081"


@dataclass(frozen=True, slots=True)
class Agent:
    """All parts of one agent."""

    manager: Manager
    reconciler: HostReconciler
    body: Body


def build(client: Client, options: AgentOptions, registry: Registry) -> Agent:
    """Wire an agent together; it does nothing before its manager runs."""
    namespace = options.namespace
    body = assemble(options.body, lambda name: SharedLocks(client, namespace, name))
    hostname = body.identity.hostname
    here = Selection(namespace)
    config_sets, nodes = Cache(client, CONFIG_SETS, here), Cache(client, MANAGED_NODES, here)
    queue: WorkQueue[ObjectKey] = WorkQueue("host", metrics=registry)
    node = NodeObject(client, nodes, namespace, body.identity)
    events = EventRecorder(client, "nodemanager", hostname)
    references = ReferenceWatch(client, namespace, lambda: queue.add(node.key))
    reconciler = HostReconciler(
        body=body,
        node=node,
        sources=Sources(config_sets, nodes, references),
        queue=queue,
        eyes=Eyes(body.tree, body.identity, body.converger.observer.run, client),
        reporter=Reporter(hostname, registry, events, time.time),
        now=_now,
        heartbeat_lease=heartbeat.lease_name(hostname),
    )
    controller = Controller(
        "host", reconciler.reconcile, queue=queue, metrics=registry, log=log,
        expected=(errors.KubeError, HostError, RunError),
    )  # fmt: skip
    manager = Manager(log=log, start_timeout=None)
    manager.add_cache(config_sets, nodes)
    manager.add(references, events, heartbeat.Heartbeat(client, namespace, hostname, _now), controller)
    _add_servers(manager, options, registry, controller)
    reconciler.start()
    reconciler.trigger()
    return Agent(manager, reconciler, body)


def _add_servers(manager: Manager, options: AgentOptions, registry: Registry, controller: Controller) -> None:
    if address := probes.parse_address(options.metrics_address):
        manager.add_server(probes.ProbeServer("metrics", address, probes.Routes(metrics=registry)))
    if address := probes.parse_address(options.probe_address):
        checks = {"reconcile": lambda: controller.check(STUCK_SECONDS)}
        routes = probes.Routes(health=checks, readiness={"manager": manager.not_ready})
        manager.add_server(probes.ProbeServer("health probes", address, routes))


def _now() -> datetime:
    return datetime.now(UTC)
