"""How the visit of a host begins: its claim, its deadline, and what holds for all of its states."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from nodemanager.api.maintenance.disruption import DRAIN_TIMEOUT, SKIP, Disruption
from nodemanager.api.maintenance.health_gates import HealthGate
from nodemanager.api.maintenance.nodemaintenance import DEFAULT_DEADLINE, NodeMaintenanceSpec
from nodemanager.api.maintenance.windows import ABORT, FINISH_HOST, WindowSpec
from nodemanager.fleet.maintenance import claims, undoing, visits
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.openings import WindowView
from nodemanager.fleet.maintenance.states import VisitRules
from nodemanager.fleet.maintenance.steps import PROOF_TIMEOUT, RunWork
from nodemanager.kube.go import durations


@dataclass(frozen=True, slots=True)
class VisitOwner:
    """The maintenance and the run that a visit is for."""

    name: str
    uid: str
    generation: int
    run: str


def rules_of(spec: NodeMaintenanceSpec, window: WindowSpec, work: RunWork) -> VisitRules:
    """Return the rules that hold for all visits of a maintenance."""
    disruption = spec.disruption or Disruption()
    drain = disruption.drain
    after: list[HealthGate] = spec.health.after if spec.health is not None else []
    return VisitRules(
        cordons=disruption.cordons(may_reboot=work.may_reboot),
        drains=disruption.drains(may_reboot=work.may_reboot),
        drain_timeout=_seconds(drain.timeout if drain is not None else "", DRAIN_TIMEOUT),
        on_drain_timeout=(drain.on_timeout if drain is not None else "") or SKIP,
        proof_timeout=max(_seconds(gate.timeout, PROOF_TIMEOUT) for gate in [*after, HealthGate()]),
        soak=_seconds(spec.soak, "0"),
        can_undo=undoing.is_possible(work.steps),
        undo_expired=window.on_close == ABORT,
    )


def _seconds(text: str, default: str) -> timedelta:
    return timedelta(seconds=durations.parse(text or default))


def longest(spec: NodeMaintenanceSpec) -> timedelta:
    """Return how long the visit of a host may take."""
    return timedelta(seconds=spec.active_deadline_seconds or DEFAULT_DEADLINE) + _seconds(spec.soak, "0")


def claim(
    owner: VisitOwner,
    host: HostFacts,
    attempt: int,
    spec: NodeMaintenanceSpec,
    rules: VisitRules,
    now: datetime,
) -> Claim:
    """Return the claim with which the visit of a host begins."""
    state = visits.first_state(host, rules)
    return Claim(
        maintenance=owner.name,
        uid=owner.uid,
        host_uid=host.uid,
        run=owner.run,
        attempt=attempt,
        state=state,
        since=now,
        begun=now,
        expires=now + longest(spec),
        generation=owner.generation,
        task=claims.task_name(host.name, owner.uid, owner.run, host.uid, attempt),
        # Somebody may have cordoned the Node since the decision: then the cordon stays theirs.
        cordoned=state is State.CORDONING and host.node is not None and not host.node.cordoned,
        boot_id=host.health.boot_id,
    )


def task_deadline(held: Claim, window: WindowSpec, view: WindowView) -> datetime:
    """Return when it is too late to begin a step of a host's task.

    The agent obeys this without the API, too.
    """
    if (window.on_close or FINISH_HOST) == FINISH_HOST or view.closes_at is None:
        return held.expires
    return min(held.expires, view.closes_at)
