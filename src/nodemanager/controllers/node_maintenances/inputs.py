"""What a maintenance refers to, as it is now: window, series, templates; and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS, MaintenanceWindow
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.nodeoperationtemplate import (
    NODE_OPERATION_TEMPLATES,
    NodeOperationTemplate,
    NodeOperationTemplateSpec,
)
from nodemanager.api.maintenance.nodeseries import NODE_SERIES, NodeSeries
from nodemanager.api.maintenance.operations import REALTIME, Operation
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.client.verbs import Client
from nodemanager.controllers import window_calendars
from nodemanager.controllers.registration import Caches
from nodemanager.fleet import series
from nodemanager.fleet.maintenance import openings, steps
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.plan import series_of
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.steps import StepsError, TemplateMissing, Work
from nodemanager.fleet.series import HostGroup
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.kube.objects import ObjectKey

SHUT: Final = Calendar(WindowSpec())
"""A window that never opens: what cannot be read lets nothing begin."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing can be begun with."""

    reason: Reason
    object: str
    message: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a maintenance refers to."""

    calendar: Calendar
    view: WindowView
    groups: Sequence[HostGroup]
    operations: tuple[Operation, ...]
    """Those that tasks are made of."""
    work: Mapping[str, Work]
    """What each of them does, by name."""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class InputReader:
    """Finds out what a maintenance refers to."""

    client: Client
    caches: Caches

    async def read(self, maintenance: NodeMaintenance, nodes: Sequence[ManagedNode], now: datetime) -> Inputs:
        """Return all of it; of several problems the first."""
        calendar, view, shut = await self._window(maintenance, now)
        groups, nobody = self._series(maintenance, nodes)
        operations = tuple(one for one in maintenance.spec.operations if one.type != REALTIME)
        work, wrong = self._work(maintenance, operations)
        return Inputs(calendar, view, groups, operations, work, shut or nobody or wrong)

    async def _window(
        self, maintenance: NodeMaintenance, now: datetime
    ) -> tuple[Calendar, WindowView, Problem | None]:
        spec, namespace = maintenance.spec.window, maintenance.metadata.namespace
        if spec is None:
            name = maintenance.spec.window_ref.name if maintenance.spec.window_ref is not None else ""
            windows = self.caches.of(MAINTENANCE_WINDOWS)
            found: MaintenanceWindow | None = windows.get(ObjectKey(namespace, name))
            if found is None:
                said = f"there is no MaintenanceWindow {name}"
                problem = Problem(Reason.WINDOW_NOT_FOUND, f"maintenancewindow/{name}", said)
                return SHUT, WindowView(), problem
            spec = found.spec
        calendar = Calendar(spec, await window_calendars.read(self.client, spec, namespace, now))
        try:
            return calendar, await asyncio.to_thread(openings.view, calendar, now), None
        except ValueError as error:
            return SHUT, WindowView(), Problem(Reason.WINDOW_INVALID, "", f"{error}; until then it is shut")

    def _series(
        self, maintenance: NodeMaintenance, nodes: Sequence[ManagedNode]
    ) -> tuple[Sequence[HostGroup], Problem | None]:
        referred: SeriesSpec | None = None
        if maintenance.spec.series_ref is not None:
            name = maintenance.spec.series_ref.name
            key = ObjectKey(maintenance.metadata.namespace, name)
            found: NodeSeries | None = self.caches.of(NODE_SERIES).get(key)
            if found is None:
                said = f"there is no NodeSeries {name}"
                return (), Problem(Reason.SERIES_NOT_FOUND, f"nodeseries/{name}", said)
            referred = found.spec
        members = series.members(series_of(maintenance.spec, referred), nodes)
        if not members.groups:
            return (), Problem(Reason.NO_HOSTS, "", "the series chooses no host")
        return members.groups, None

    def _work(
        self, maintenance: NodeMaintenance, operations: Sequence[Operation]
    ) -> tuple[dict[str, Work], Problem | None]:
        """Return what operations do; one that cannot be read keeps all of them from beginning."""
        templates = _Templates(self.caches, maintenance.metadata.namespace)
        found: dict[str, Work] = {}
        problem: Problem | None = None
        for one in operations:
            try:
                found[one.name] = steps.work([one], templates.of(one))
            except TemplateMissing as error:
                said = f"there is no NodeOperationTemplate {error}"
                problem = Problem(Reason.TEMPLATE_NOT_FOUND, f"nodeoperationtemplate/{error}", said)
            except StepsError as error:
                problem = Problem(Reason.STEPS_INVALID, f"operation {one.name}", str(error))
        return found, problem

    def series(self, maintenance: NodeMaintenance) -> SeriesSpec:
        """Return the series of a maintenance; one that is missing means all hosts, and is a problem."""
        reference = maintenance.spec.series_ref
        name = reference.name if reference is not None else ""
        found: NodeSeries | None = self.caches.of(NODE_SERIES).get(
            ObjectKey(maintenance.metadata.namespace, name)
        )
        return series_of(maintenance.spec, found.spec if found is not None else None)

    def templates(
        self, maintenance: NodeMaintenance, operation: Operation
    ) -> dict[str, NodeOperationTemplateSpec]:
        """Return the template of an operation, by its name, if it is there."""
        return _Templates(self.caches, maintenance.metadata.namespace).of(operation)

    def run_work(self, maintenance: NodeMaintenance, names: Sequence[str]) -> Work:
        """Return what a run of these operations does; raise StepsError or TemplateMissing."""
        chosen = [one for one in maintenance.spec.operations if one.name in names]
        templates = _Templates(self.caches, maintenance.metadata.namespace)
        found = {name: spec for one in chosen for name, spec in templates.of(one).items()}
        return steps.work(chosen, found, maintenance.spec.health)


@dataclass(frozen=True, slots=True)
class _Templates:
    caches: Caches
    namespace: str

    def of(self, operation: Operation) -> dict[str, NodeOperationTemplateSpec]:
        """Return the template of an operation, by its name."""
        if operation.template_ref is None:
            return {}
        name = operation.template_ref.name
        cache = self.caches.of(NODE_OPERATION_TEMPLATES)
        found: NodeOperationTemplate | None = cache.get(ObjectKey(self.namespace, name))
        return {name: found.spec} if found is not None else {}
