"""The operator, built from the list of its controllers.

    ENTRIES  ->  caches, one per kind and selection  ->  queues  ->  controllers, health checks
             ->  the rights of the operator (config/rbac/operator.yaml, the chart)

A new controller is a package beside this file and one entry in the list.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import socket
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from nodemanager.api import kinds
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.api.kind_parts import READ
from nodemanager.api.rights import operator_rights
from nodemanager.api.rights.operator_rights import Right
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.controllers import (
    audit,
    configsets,
    disruption,
    edge_clusters,
    host_roles,
    lean_objects,
    liveness,
    maintenance_windows,
    node_maintenances,
    node_series,
    node_tasks,
    notifications,
    previews,
    pruning,
    registration,
    rollouts,
)
from nodemanager.controllers.edge_clusters import reading
from nodemanager.controllers.registration import Caches, ControllerContext, Entry, PartContext, Registration
from nodemanager.fleet.audit.settings import AuditSettings
from nodemanager.kube import object_names
from nodemanager.kube.core import LEASES
from nodemanager.kube.objects import ObjectKey, Resource
from nodemanager.rendering import limits
from nodemanager.rendering.process import Start
from nodemanager.rendering.renderer import Renderer
from nodemanager.runtime import metrics
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.controller import Controller
from nodemanager.runtime.election import LeaderElector
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.lease import LeaseLock, Timings
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.probes import Check
from nodemanager.runtime.queue import WorkQueue
from nodemanager.runtime.ticker import Ticker

log = logging.getLogger("nodemanager.operator")

ENTRIES: Final[tuple[Entry, ...]] = (
    liveness.REGISTRATION,
    configsets.REGISTRATION,
    rollouts.REGISTRATION,
    previews.REGISTRATION,
    pruning.REGISTRATION,
    host_roles.REGISTRATION,
    maintenance_windows.REGISTRATION,
    node_series.REGISTRATION,
    node_maintenances.REGISTRATION,
    disruption.REGISTRATION,
    disruption.PLANNED,
    node_tasks.REGISTRATION,
    notifications.REGISTRATION,
    audit.REGISTRATION,
    audit.WEBHOOK,
)
EDGE_ENTRIES: Final[tuple[Entry, ...]] = (edge_clusters.REGISTRATION,)
"""Entries that an operator has only on request: the others pay no watch and need no right for them."""


def entries_for(*, edge: bool) -> tuple[Entry, ...]:
    """Return all entries of an operator."""
    if not edge:
        return ENTRIES
    own = (audit.WITH_EDGE if one is audit.REGISTRATION else one for one in ENTRIES)
    return (*own, *EDGE_ENTRIES)


LEASE: Final = operator_rights.NAME
LEADING_METRIC: Final = "leader_election_master_status"
DISRUPTION: Final = f"{operator_rights.NAME}-disruption"
"""The ClusterRole that is granted separately, and its binding."""
EDGE: Final = f"{operator_rights.NAME}-edge"
"""The roles that are granted separately for edge sites, and their bindings."""
_LONGEST_ROLE: Final = object_names.MAX - 64
"""The longest name that stays a valid name with a namespace appended."""
_LEADING: Final = Right(LEASES, ("get", "create", "update", "patch"))


def rights(entries: Iterable[Entry] = ENTRIES) -> list[Right]:
    """Return the operator's rights: to read what it watches, to do what each entry asks for, and to lead."""
    return [*_needed(entries), _LEADING]


def _needed(entries: Iterable[Entry]) -> list[Right]:
    return [
        right
        for entry in entries
        for right in (
            *(Right(watch.resource, READ) for watch in entry.watches if not watch.optional),
            *entry.rights,
        )
    ]


def manifests(namespace: str, entries: Iterable[Entry] = ENTRIES) -> list[dict[str, Any]]:
    """Return the operator's account and rights as objects."""
    return operator_rights.manifests(namespace, rights(entries))


def disruption_manifests(namespace: str) -> list[dict[str, Any]]:
    """Return the objects that let the operator cordon and drain Kubernetes Nodes; they are optional."""
    return operator_rights.extra_manifests(DISRUPTION, namespace, disruption.RIGHTS)


def edge_manifests(namespace: str) -> list[dict[str, Any]]:
    """Return the objects that let the operator look at profiles and sites, for clusters with edge sites."""
    return operator_rights.more_manifests(EDGE, namespace, _needed(EDGE_ENTRIES))


def site_manifests(profile: EdgeProfile, namespace: str) -> list[dict[str, Any]]:
    """Return the objects that let a namespace's operator look at what a profile names; maybe none."""
    from nodemanager.controllers.edge_clusters import (
        node_reading,
        part_reading,
    )  # with all backends, for sites only

    name, spec = _site_role(profile.metadata.name), profile.spec
    by_space = part_reading.rights_in(spec)
    if spec.bridge is not None:
        by_space.setdefault(spec.bridge.namespace, []).extend(reading.rights(spec.bridge))
    own = [*part_reading.rights(spec), *node_reading.rights(spec), *by_space.pop(namespace, [])]
    found = operator_rights.more_manifests(name, namespace, own)
    for space, needed in by_space.items():
        found += operator_rights.foreign_manifests(name, space, namespace, needed)
    return found


def _site_role(profile: str) -> str:
    """Return the name of a profile's roles; a long name is cut."""
    name = f"{EDGE}-{profile}"
    if len(name) <= _LONGEST_ROLE:
        return name
    return f"{name[: _LONGEST_ROLE - 17]}.{hashlib.sha256(profile.encode()).hexdigest()[:16]}"


def own_kinds(entries: Iterable[Entry] = ENTRIES) -> list[Resource[Any]]:
    """Return the kinds of ours that a cluster must know before the operator can run."""
    watched = {
        watch.resource.qualified_name for entry in entries for watch in entry.watches if not watch.optional
    }
    return [kind.resource for kind in kinds.BY_NAME if kind.resource.qualified_name in watched]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the process gives to the operator."""

    client: Client
    namespace: str
    metrics: metrics.Registry
    start: Start
    """Starts the process that renders: controllers start no processes themselves."""
    leader_elect: bool = True
    audit: AuditSettings = field(default_factory=AuditSettings)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Operator:
    """All parts, ready to run, and the health of each."""

    manager: Manager
    health: dict[str, Check]
    """Health checks by the name of the entry."""


def assemble(given: Dependencies, entries: Iterable[Entry] = ENTRIES) -> Operator:
    """Return the operator that follows from a list of entries."""
    lock = None
    if given.leader_elect:
        lock = lease(given.client, given.namespace)
        _show_leadership(lock, given.metrics)
    # An API that does not answer at the start is waited for, as at any other time.
    manager = Manager(log=log, elector=LeaderElector(lock) if lock else None, start_timeout=None)
    builder = _Builder(given, manager, given.client.guarded(lock.check) if lock else given.client)
    for entry in entries:
        builder.add(entry)
    manager.add_server(builder.renderer)
    manager.add_cache(*builder.caches.values())
    manager.add(builder.events)
    return Operator(manager, builder.health)


def lease(client: Client, namespace: str, timings: Timings | None = None) -> LeaseLock:
    """Return the Lease of the operator, for this process to hold."""
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return LeaseLock(client, LEASE, namespace, identity, timings=timings)


def _show_leadership(lock: LeaseLock, registry: metrics.Registry) -> None:
    status = registry.gauge(LEADING_METRIC, "1 while this process leads.", ("name",))
    status.labels(LEASE).set_function(lambda: float(lock.held))


@dataclass(frozen=True)
class _Builder:
    """Builds one entry after the other; parts that entries share are built once."""

    given: Dependencies
    manager: Manager
    writer: Client
    """The client for controllers that need leadership: it writes only while we lead."""
    caches: dict[tuple[Resource[Any], Selection], Cache[Any]] = field(default_factory=dict)
    health: dict[str, Check] = field(default_factory=dict)

    @functools.cached_property
    def renderer(self) -> Renderer:
        """The one process that renders."""
        return Renderer(self.given.start, limits.NAMES)

    @functools.cached_property
    def events(self) -> EventRecorder:
        """The recorder that sends Events to the API."""
        return EventRecorder(self.given.client, operator_rights.NAME)

    def add(self, entry: Entry) -> None:
        """Build an entry, and have the manager run it."""
        client = self.writer if entry.leader_only else self.given.client
        run = self.manager.add_leader_only if entry.leader_only else self.manager.add
        given = self.given
        told = given.now, given.metrics, given.namespace, given.audit
        shared = client, self._caches(entry), self.events, self.renderer, *told
        if isinstance(entry, Registration):
            queue: WorkQueue[ObjectKey] = WorkQueue(entry.name, metrics=self.given.metrics)
            controller = self._controller(entry, ControllerContext(*shared, queue))
            self.health[entry.name] = functools.partial(controller.check, entry.stuck_after)
            run(controller, *(Ticker(queue, key, seconds) for key, seconds in entry.periodic))
        else:
            run(entry.build(PartContext(*shared)))

    def _controller(self, entry: Registration, context: ControllerContext) -> Controller:
        registration.connect(entry.watches, context.caches, context.queue)
        return Controller(
            entry.name,
            entry.build(context),
            queue=context.queue,
            metrics=self.given.metrics,
            log=log,
            concurrency=entry.concurrency,
            timeout=entry.timeout,
        )

    def _caches(self, entry: Entry) -> Caches:
        """Return the caches of an entry; entries that watch the same kind and selection share one cache."""
        found: dict[Resource[Any], Cache[Any]] = {}
        for watch in entry.watches:
            if watch.resource in found:
                raise ValueError(
                    f"cannot build {entry.name}: it watches {watch.resource.qualified_name} twice"
                )
            selection = watch.selection(self.given.namespace)
            key = watch.resource, selection
            if key not in self.caches:
                made = Cache(self.given.client, watch.resource, selection, optional=watch.optional)
                if any(one.name == made.name for one in self.caches.values()):
                    made.name = f"{made.name} as {watch.resource.type.__name__}"
                if (trim := lean_objects.TRIMS.get(watch.resource)) is not None:
                    made.trim_by(trim)
                self.caches[key] = made
            found[watch.resource] = self.caches[key]
        return Caches(entry.name, found)
