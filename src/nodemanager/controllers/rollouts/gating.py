"""Finds out what keeps further hosts from a change of a ConfigSet, for `fleet.rollout.gates`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from nodemanager.api.audit.auditcheckpoint import AuditCheckpoint
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevisionSpec
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import Rollout, RolloutStatus
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApproval
from nodemanager.api.maintenance.maintenancewindow import MaintenanceWindow
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.client.verbs import Client
from nodemanager.controllers import audit_gate, window_calendars
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.gate_asking import Asker
from nodemanager.controllers.rollouts.health import MOST_HOSTS, RolloutHealth, is_asked_for, proof_since
from nodemanager.fleet.maintenance import openings
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.questions import MAX_SAID
from nodemanager.fleet.rollout import approving, judging, stages
from nodemanager.fleet.rollout.facts import RolloutProgress
from nodemanager.fleet.rollout.gates import ASK_SECONDS, LOOK_SECONDS, Obstacle, RolloutGates, WindowGate
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.fleet.rollout.remembering import RolloutPart
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.fleet.windows.exclusions import Calendars
from nodemanager.kube import errors, wording
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache

UNHEARD: Final = (RolloutProgress.ABSENT, RolloutProgress.LOST)
READ_SECONDS: Final = 5.0
READ_AGAIN_SECONDS: Final = 30.0
KEPT: Final = timedelta(minutes=1)
"""How long calendars are used without reading them again: each report of a host causes a look."""


class KeptCalendars(NamedTuple):
    """The calendars of a window, as they were read."""

    window: WindowSpec
    at: datetime
    calendars: Calendars


class GatedRollout(NamedTuple):
    """A rollout with gates that are asked."""

    config_set: ConfigSet
    """The set that declares the gates; if several move together, the first one."""
    published: RolloutStatus | None
    parts: Sequence[RolloutPart]
    """All its sets, as they are published."""


class AskedChange(NamedTuple):
    """The present content of a set, and who has to approve it."""

    rollout: Rollout | None
    revision: ConfigSetRevisionSpec


def asked_alone(config_set: ConfigSet) -> GatedRollout:
    """Return the questions about a set that moves alone."""
    published = config_set.status.rollout
    parts = [RolloutPart(config_set.metadata.name, published)] if published is not None else []
    return GatedRollout(config_set, published, parts)


@dataclass(frozen=True, slots=True)
class GateReader:
    """Reads what `spec.rollout` refers to, and asks its gates of health."""

    client: Client
    windows: Cache[MaintenanceWindow]
    kube_nodes: Cache[Node]
    approvals: Cache[MaintenanceApproval]
    asker: Asker
    kept: dict[ObjectKey, KeptCalendars] = field(default_factory=dict)
    """By window."""
    checkpoints: Cache[AuditCheckpoint] | None = None
    """Whether the audit log can be relied on; None = that is not asked."""

    async def read(
        self, about: GatedRollout, changes: Sequence[AskedChange], nodes: Sequence[ManagedNode], now: datetime
    ) -> RolloutGates:
        """Return the gates of a rollout; `changes` are the present contents of its sets."""
        window, health = await self._window(about.config_set, now), self._health(about, nodes)
        found = health.finding(self.asker.answers, now)
        namespace = about.config_set.metadata.namespace
        unapproved = (self._unapproved(one, namespace) for one in changes)
        waiting = next((one for one in unapproved if one), "")
        return RolloutGates(window, found, waiting, unrecorded=self._unrecorded(namespace))

    def _unrecorded(self, namespace: str) -> str:
        return audit_gate.stopped(self.checkpoints, namespace) if self.checkpoints is not None else ""

    def _unapproved(self, change: AskedChange, namespace: str) -> str:
        rollout, current = change.rollout, change.revision
        if rollout is None or not approving.is_needed(rollout):
            return ""
        said = (one.spec for one in self.approvals.values() if one.metadata.namespace == namespace)
        if any(approving.approves(one, rollout, current) for one in said):
            return ""
        named = f" (ConfigSet {current.config_set})" if rollout.group else ""
        return approving.hash_of(rollout, current) + named

    def ask(
        self, about: GatedRollout, nodes: Sequence[ManagedNode], status: RolloutStatus, again: float | None
    ) -> float | None:
        """Ask the gates of health whose answer matters for the present status.

        Return when to look again; `again` is when that would be without gates.
        """
        rollout = about.config_set.spec.rollout
        if rollout is None or not rollout.health or not is_asked_for(status):
            return again
        health = self._health(about, nodes)
        self.asker.want(key_of(about.config_set), health.questions())
        return ASK_SECONDS if again is None else min(ASK_SECONDS, again)

    def _health(self, about: GatedRollout, nodes: Sequence[ManagedNode]) -> RolloutHealth:
        """Return the gates of health, and the hosts that they are about.

        Silent hosts are left out: how many of these stop a rollout is decided elsewhere.
        """
        rollout, published = about.config_set.spec.rollout, about.published
        gates, meta = rollout.health if rollout is not None else [], about.config_set.metadata
        if gates and published is not None and published.next is not None:
            hosts = stages.moved(published, judging.hosts_of(about.parts, nodes))
            last = sorted(hosts, key=lambda one: one.position, reverse=True)
            names = [one.name for one in last if one.progress not in UNHEARD][:MOST_HOSTS]
        else:
            names = []
        known = {one.metadata.name: one for one in nodes} if names else {}
        return RolloutHealth(
            gates,
            meta.namespace,
            [known[one] for one in names],
            self._kube_node,
            self.kube_nodes.refused,
            proof_since(published) if published is not None else None,
        )

    def _kube_node(self, name: str) -> Node | None:
        return self.kube_nodes.get(ObjectKey("", name))

    async def _window(self, config_set: ConfigSet, now: datetime) -> WindowGate | None:
        rollout, namespace = config_set.spec.rollout, config_set.metadata.namespace
        if rollout is None or rollout.window_ref is None:
            return None
        name = rollout.window_ref.name
        key = ObjectKey(namespace, name)
        window = self.windows.get(key)
        if window is None:
            self.kept.pop(key, None)
            said = f"there is no MaintenanceWindow {name}"
            return WindowGate(name, problem=Obstacle(RolloutReason.WINDOW_NOT_FOUND, said))
        try:
            async with asyncio.timeout(READ_SECONDS):  # hosts that have to return do not wait for a calendar
                view = await self._view(key, window.spec, now)
        except ValueError as error:
            said = f"MaintenanceWindow {name}: {error}"
            return WindowGate(name, problem=Obstacle(RolloutReason.WINDOW_INVALID, said, LOOK_SECONDS))
        except (errors.KubeError, TimeoutError) as error:
            why = wording.flat(str(error), MAX_SAID) or f"no answer within {READ_SECONDS:g} s"
            said = f"MaintenanceWindow {name}: its calendars cannot be read: {why}"
            return WindowGate(name, problem=Obstacle(RolloutReason.WINDOW_INVALID, said, READ_AGAIN_SECONDS))
        return WindowGate(name, view)

    async def _view(self, key: ObjectKey, window: WindowSpec, now: datetime) -> WindowView:
        """Return what a window allows now."""
        known = self.kept.get(key)
        if known is None or known.window != window or not timedelta() <= now - known.at < KEPT:
            found = await window_calendars.read(self.client, window, key.namespace, now)
            known = self.kept[key] = KeptCalendars(window, now, found)
        return await asyncio.to_thread(openings.view, Calendar(window, known.calendars), now)
