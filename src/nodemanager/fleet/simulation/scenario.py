"""Makes a simulated fleet from manifests. It invents what they lack, and reports that."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.health_gates import Health
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance, NodeMaintenanceSpec
from nodemanager.api.maintenance.nodeoperationtemplate import NodeOperationTemplateSpec
from nodemanager.api.maintenance.operations import REALTIME
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.api.maintenance.task_steps import ExecutionAction, RebootAction, TaskStep
from nodemanager.api.maintenance.windows import WindowSpec
from nodemanager.fleet.maintenance import questions, steps
from nodemanager.fleet.simulation.engine import Engine
from nodemanager.fleet.simulation.remembering import RememberingCalendar
from nodemanager.fleet.simulation.world import Behaviour, Dice, SimHost, SimMaintenance
from nodemanager.kube.selectors import LabelSelector

ZONES: Final = ("a", "b", "c")
FEW: Final = 50
"""One of so many invented hosts is a canary, or one of the last."""


class ScenarioError(ValueError):
    """The manifests cannot be simulated; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What manifests declare, by name."""

    maintenances: Mapping[str, NodeMaintenance]
    windows: Mapping[str, WindowSpec] = field(default_factory=dict)
    series: Mapping[str, SeriesSpec] = field(default_factory=dict)
    templates: Mapping[str, NodeOperationTemplateSpec] = field(default_factory=dict)
    nodes: Mapping[str, ManagedNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How it is simulated."""

    start: datetime
    hosts: int = 0
    """How many hosts there are; those beyond the manifests are invented."""
    failures: float = 0.0
    seed: int = 0


def build(scenario: Scenario, setting: SimulationSettings) -> tuple[Engine, list[str]]:
    """Return the fleet with its maintenances, and remarks about invented parts."""
    if not scenario.maintenances:
        raise ScenarioError("cannot simulate: there is no NodeMaintenance in these files")
    remarks: list[str] = []
    made = [_maintenance(one, scenario, setting.start, remarks) for one in scenario.maintenances.values()]
    hosts = {name: _declared(node, setting.start) for name, node in scenario.nodes.items()}
    missing = setting.hosts - len(hosts)
    if missing > 0:
        hosts |= {host.name: host for host in _invented(missing, made, set(hosts), setting.start)}
    if not hosts:
        raise ScenarioError("cannot simulate: there is no ManagedNode in these files; give --hosts")
    # Invented from the seed; no secret depends on it.
    dice = Dice(Behaviour(failures=setting.failures), random.Random(setting.seed))  # noqa: S311
    tick = timedelta(seconds=1 if len(hosts) < FEW else 15)
    return Engine(setting.start, hosts, made, dice, tick=tick), remarks


def _maintenance(
    one: NodeMaintenance, scenario: Scenario, start: datetime, remarks: list[str]
) -> SimMaintenance:
    name, spec = one.metadata.name, one.spec
    window = spec.window
    if spec.window_ref is not None:
        window = scenario.windows.get(spec.window_ref.name)
    if window is None:
        where = spec.window_ref.name if spec.window_ref is not None else "none"
        raise ScenarioError(f"cannot simulate {name}: its window ({where}) is not in these files; add it")
    series = spec.series
    if spec.series_ref is not None:
        series = scenario.series.get(spec.series_ref.name)
        if series is None:
            raise ScenarioError(
                f"cannot simulate {name}: its NodeSeries {spec.series_ref.name} is not in these files; add it"
            )
    templates = dict(scenario.templates)
    for operation in spec.operations:
        if operation.type != REALTIME and operation.template_ref is not None:
            wanted = operation.template_ref.name
            if wanted not in templates:
                templates[wanted] = _stand_in(wanted, sorted(operation.parameters))
                remarks.append(f"template {wanted} is not in these files: one step stands for it")
    remarks += [f"{name} {said}" for said in _waived(spec)]
    steps.work(spec.operations, templates)  # unreadable values are reported now, and not in the middle
    spec = msgspec.structs.replace(spec, paused=False)
    calendar = RememberingCalendar(window)
    return SimMaintenance(name, f"uid-{name}", start, spec, series or SeriesSpec(), calendar, templates)


def _waived(spec: NodeMaintenanceSpec) -> Iterator[str]:
    """Yield the conditions that would prevent a start, and that the simulation ignores."""
    if spec.paused:
        yield "is paused: simulated as if it were not"
    if spec.approval is not None and spec.approval.required:
        yield "needs an approval: simulated as if it had one"
    health = spec.health or Health()
    if any(questions.question(gate, "", "") for gate in (*health.before, *health.after)):
        yield "has gates that ask others: simulated as if all of them held"


def _stand_in(name: str, parameters: list[str]) -> NodeOperationTemplateSpec:
    step = TaskStep(name="step", execution=ExecutionAction(argv=["true"]))
    if "reboot" in name or "upgrade" in name:
        step = TaskStep(name="step", reboot=RebootAction(when="ifNeeded"))
    spec = {"parameters": [{"name": one} for one in parameters]}
    return msgspec.structs.replace(msgspec.convert(spec, NodeOperationTemplateSpec), steps=[step])


def _declared(node: ManagedNode, start: datetime) -> SimHost:
    meta = node.metadata
    return SimHost(meta.name, meta.uid or f"uid-{meta.name}", start - timedelta(days=1), dict(meta.labels))


def _invented(count: int, made: list[SimMaintenance], taken: set[str], start: datetime) -> list[SimHost]:
    """Return hosts that the series choose, spread over zones."""
    wanted = [name for one in made for name in one.series.names if name not in taken]
    names = [*dict.fromkeys(wanted), *(f"host-{number:05}" for number in range(1, count + 1))][:count]
    found = []
    for place, name in enumerate(names):
        labels = {"topology.kubernetes.io/zone": ZONES[place % len(ZONES)]}
        for one in made:
            labels |= _matching(one.series.selector) | _matching(one.series.node_selector)
            zone = one.spec.budget.per_zone.label if one.spec.budget and one.spec.budget.per_zone else ""
            for label in filter(None, (one.series.group_by, zone)):
                labels[label] = ZONES[place % len(ZONES)]
            if place % FEW == 0:
                labels |= _matching(one.series.canaries)
            elif place % FEW == FEW - 1:
                labels |= _matching(one.series.last)
        found.append(SimHost(name, f"uid-{name}", start - timedelta(days=1), labels))
    return found


def _matching(selector: LabelSelector | None) -> dict[str, str]:
    """Return labels that a selector accepts, as far as it names values."""
    if selector is None:
        return {}
    found = dict(selector.match_labels)
    for one in selector.match_expressions:
        if one.operator == "In" and one.values:
            found.setdefault(one.key, one.values[0])
        elif one.operator == "Exists":
            found.setdefault(one.key, "")
    return found
