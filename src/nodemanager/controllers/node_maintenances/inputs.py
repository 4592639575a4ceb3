"""The objects that a maintenance refers to: window, series, templates; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
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
from nodemanager.controllers import audit_gate, window_calendars
from nodemanager.controllers.disruption.nodes import NODES
from nodemanager.controllers.registration import Caches
from nodemanager.fleet import series
from nodemanager.fleet.maintenance import steps
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.plan import series_of
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.steps import RunWork, StepsError, TemplateMissing
from nodemanager.fleet.series import HostGroup, LeftOut, Members, NodeLabels
from nodemanager.fleet.windows.calendar import Calendar
from nodemanager.kube.objects import ObjectKey, key_of

SHUT: Final = Calendar(WindowSpec())
"""A window that never opens: it stands for one that cannot be read, so that no work begins."""
NOBODY: Final = Members(())


@dataclass(frozen=True, slots=True)
class Problem:
    """Why no work can begin."""

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
    """The operations that tasks are made of."""
    work: Mapping[str, RunWork]
    """The work of each operation, by name."""
    problem: Problem | None = None
    left_out: LeftOut = NOBODY.left_out
    series_known: bool = True
    """Whether it is known which hosts the series selects, even if something else is wrong."""


@dataclass(frozen=True, slots=True)
class InputReader:
    """Reads what a maintenance refers to."""

    client: Client
    caches: Caches
    _known: dict[ObjectKey, tuple[int, SeriesSpec, Members]] = field(default_factory=dict)
    """Which hosts a series selected, with the value of `labelled` at that time."""

    async def read(
        self, maintenance: NodeMaintenance, nodes: Sequence[ManagedNode], now: datetime, labelled: int = -1
    ) -> Inputs:
        """Return all inputs; of several problems the first one.

        If `labelled` is the same as at the last look, hosts are not searched again; -1 = it is not known.
        """
        calendar, view, shut = await self._window(maintenance, now)
        members, nobody = self._series(maintenance, nodes, labelled)
        operations = tuple(one for one in maintenance.spec.operations if one.type != REALTIME)
        work, wrong = self._work(maintenance, operations)
        problem = shut or nobody or wrong or self.unrecorded(maintenance.metadata.namespace)
        told = nobody is None or nobody.reason is Reason.NO_HOSTS
        return Inputs(calendar, view, members.groups, operations, work, problem, members.left_out, told)

    def unrecorded(self, namespace: str) -> Problem | None:
        """Return a problem if the audit log is stopped: no work begins that it could not record."""
        why = audit_gate.stopped(self.caches.of(AUDIT_CHECKPOINTS), namespace)
        return Problem(Reason.AUDIT_BROKEN, audit_gate.OBJECT, why) if why else None

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
        try:
            calendar, view = await window_calendars.view(self.client, spec, namespace, now)
        except ValueError as error:
            return SHUT, WindowView(), Problem(Reason.WINDOW_INVALID, "", f"{error}; until then it is shut")
        return calendar, view, None

    def _series(
        self, maintenance: NodeMaintenance, nodes: Sequence[ManagedNode], labelled: int
    ) -> tuple[Members, Problem | None]:
        referred: SeriesSpec | None = None
        if maintenance.spec.series_ref is not None:
            name = maintenance.spec.series_ref.name
            key = ObjectKey(maintenance.metadata.namespace, name)
            found: NodeSeries | None = self.caches.of(NODE_SERIES).get(key)
            if found is None:
                said = f"there is no NodeSeries {name}"
                return NOBODY, Problem(Reason.SERIES_NOT_FOUND, f"nodeseries/{name}", said)
            referred = found.spec
        spec = series_of(maintenance.spec, referred)
        if spec.node_selector is not None and (why := self.caches.of(NODES).refused):
            said = f"which hosts nodeSelector chooses cannot be told: {why}"
            return NOBODY, Problem(Reason.NODE_LABELS_UNKNOWN, "nodes", said)
        members = self._members(key_of(maintenance), spec, nodes, labelled)
        if not members.groups:
            rest = f": {left_out}" if (left_out := members.left_out.words()) else ""
            return members, Problem(Reason.NO_HOSTS, "", f"the series chooses no host{rest}")
        return members, None

    def _node_labels(self) -> NodeLabels:
        return {one.metadata.name: one.metadata.labels for one in self.caches.of(NODES).values()}

    def _members(
        self, key: ObjectKey, spec: SeriesSpec, nodes: Sequence[ManagedNode], labelled: int
    ) -> Members:
        if spec.node_selector is not None:  # labels of Nodes change without `labelled`
            return series.members(spec, nodes, self._node_labels())
        known = self._known.get(key)
        if labelled >= 0 and known is not None and known[:2] == (labelled, spec):
            return known[2]
        found = series.members(spec, nodes)
        self._known[key] = labelled, spec, found
        return found

    def _work(
        self, maintenance: NodeMaintenance, operations: Sequence[Operation]
    ) -> tuple[dict[str, RunWork], Problem | None]:
        """Return the work of operations; an unreadable one prevents all of them from beginning."""
        templates = _Templates(self.caches, maintenance.metadata.namespace)
        found: dict[str, RunWork] = {}
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

    def forget(self, key: ObjectKey) -> None:
        """Forget a maintenance that is gone."""
        self._known.pop(key, None)

    def series(self, maintenance: NodeMaintenance) -> SeriesSpec:
        """Return the series of a maintenance; a missing one counts as all hosts, and is a problem."""
        reference = maintenance.spec.series_ref
        name = reference.name if reference is not None else ""
        found: NodeSeries | None = self.caches.of(NODE_SERIES).get(
            ObjectKey(maintenance.metadata.namespace, name)
        )
        return series_of(maintenance.spec, found.spec if found is not None else None)

    def templates(
        self, maintenance: NodeMaintenance, operation: Operation
    ) -> dict[str, NodeOperationTemplateSpec]:
        """Return the template of an operation by its name, if it exists."""
        return _Templates(self.caches, maintenance.metadata.namespace).of(operation)

    def run_work(self, maintenance: NodeMaintenance, names: Sequence[str]) -> RunWork:
        """Return the work of a run of these operations; raise StepsError or TemplateMissing."""
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
