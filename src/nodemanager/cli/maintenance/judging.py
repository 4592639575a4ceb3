"""What happens to the hosts of a maintenance, as the operator decides it: the same code, other eyes. Pure."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import datetime
from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.maintenance.maintenance_status import VALID, RunState
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.cli.maintenance import planning
from nodemanager.cli.maintenance.judged import HostsJudged, Judged, RealtimeJudged
from nodemanager.cli.maintenance.reading import Found, Surroundings
from nodemanager.controllers.node_maintenances import observing, realtime_sets, undertaking, upcoming
from nodemanager.controllers.node_maintenances.gates import gates_of
from nodemanager.controllers.node_maintenances.gates import told as gates_told
from nodemanager.controllers.node_maintenances.inputs import Problem
from nodemanager.controllers.node_maintenances.status import remembering
from nodemanager.controllers.node_maintenances.undertaking import Seen
from nodemanager.fleet.maintenance import openings, realtime
from nodemanager.fleet.maintenance.decide import Wait, decide
from nodemanager.fleet.maintenance.facts import Facts, HostFacts, Run
from nodemanager.fleet.maintenance.passes import Look, Upkeep, look
from nodemanager.fleet.maintenance.realtime import RealtimeError
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.rollout import on_the_way
from nodemanager.kube import conditions

_UNREAD: Final = (Reason.NODES_UNKNOWN, Reason.NODE_LABELS_UNKNOWN)


def judge(maintenance: NodeMaintenance, around: Surroundings) -> Judged:
    """Return what happens to the hosts of a maintenance, and when."""
    seen = _seen(maintenance, around)
    _, problem = undertaking.of_run(seen, around.reader)
    problem = problem or gates_of(maintenance).problem or _told(maintenance)
    judged = Judged(maintenance, seen.inputs, problem)
    known = _facts(seen, around, judged) if seen.run is not None else None
    found = look(_upkeep(seen), known, maintenance.metadata.uid, seen.now)
    nexts = [one.next_run for one in found.judgements if one.next_run is not None]
    judged = replace(
        judged, next_run=min(nexts, default=None), run=seen.run.id if seen.run is not None else ""
    )
    run = maintenance.status.run
    if known is None and found.begins and judged.problem is None:
        run = remembering.began(maintenance.metadata.uid, found.begins, seen.now)
        seen = replace(seen, run=Run(run.id, seen.now))
        judged = replace(judged, run=run.id)
        found = replace(found, decision=decide(_facts(seen, around, judged)))
    elif run is None:
        run = upcoming.next_run(maintenance, found)
    judged = replace(judged, hosts=_hosts(judged, found))
    return _with_plan(judged, seen, run, around)


def _told(maintenance: NodeMaintenance) -> Problem | None:
    """Return a problem that only the operator can know of: what it may read itself."""
    found = conditions.get(maintenance.status.conditions, VALID)
    if found is None or found.status != conditions.FALSE or found.reason not in _UNREAD:
        return None
    return Problem(Reason(found.reason), "", found.message)


def _with_plan(judged: Judged, seen: Seen, run: RunState | None, around: Surroundings) -> Judged:
    plan = planning.plan(judged, seen, run, around) if run is not None else None
    said, shown = judged.maintenance.status, {plan.hash} if plan is not None else set()
    if said.run is not None and said.plan is not None:
        shown.add(said.plan.hash)
    found = [undertaking.approvers(judged.maintenance, each, around.caches) for each in sorted(shown)]
    approvers = tuple(dict.fromkeys(one for some in found for one in some))
    return replace(judged, plan=plan, approvers=approvers, realtime=_realtime(seen, around))


def _realtime(seen: Seen, around: Surroundings) -> RealtimeJudged | None:
    """Return what is enforced at all times, as far as it can be read."""
    sets: dict[str, ConfigSet] = {}
    for operation in realtime.operations(seen.maintenance):
        with contextlib.suppress(RealtimeError):  # the operator says so in the condition RealtimeKept
            sets[operation.name] = realtime_sets.declared(seen, around.reader, operation)
    plan = realtime_sets.planned(seen, sets)
    if plan is None:
        return None
    return RealtimeJudged(plan, undertaking.approvers(seen.maintenance, plan.hash, around.caches))


def _hosts(judged: Judged, found: Look) -> HostsJudged:
    decision = found.decision
    if decision is not None:
        waits = {wait.host: wait for wait in decision.waits}
        starts = frozenset(start.host for start in decision.starts)
        return HostsJudged(waits, starts, decision.progress)
    problem = judged.problem
    if problem is not None:
        reason, about = problem.reason, problem.object
    else:
        paused = judged.maintenance.spec.paused
        reason, about = Reason.PAUSED if paused else found.reason or Reason.NOTHING_DUE, ""
    return HostsJudged({host: Wait(host, reason, about, next_check=judged.next_run) for host in judged.names})


def _seen(maintenance: NodeMaintenance, around: Surroundings) -> Seen:
    found, uid = around.found, maintenance.metadata.uid
    tasks = [one for one in found.tasks if one.spec.reason is not None and one.spec.reason.uid == uid]
    inputs = around.inputs[maintenance.metadata.name]
    return Seen(maintenance, found.now, found.hosts, inputs, tasks, remembering.run_of(maintenance))


def _upkeep(seen: Seen) -> Upkeep:
    status, created = seen.maintenance.status, seen.maintenance.metadata.creation_timestamp
    return Upkeep(
        operations=seen.inputs.operations,
        memories=remembering.memories(status),
        created=datetime.fromisoformat(created) if created else seen.now,
        calendar=seen.inputs.calendar,
        view=seen.inputs.view,
        running=frozenset(status.run.operations) if status.run is not None else frozenset(),
    )


def _facts(seen: Seen, around: Surroundings, judged: Judged) -> Facts:
    """Return what the decision about a run is made from."""
    run, problem = seen.run or Run("", seen.now), judged.problem
    return Facts(
        uid=seen.maintenance.metadata.uid,
        spec=seen.maintenance.spec,
        run=run,
        groups=seen.inputs.groups,
        hosts=hosts(around.found, seen.maintenance),
        now=seen.now,
        window=seen.inputs.view,
        tasks=observing.run_tasks(seen.tasks, run.id, seen.now),
        durations=openings.measured(observing.durations(seen.tasks, seen.now)),
        problem=(problem.reason, problem.object) if problem is not None else None,
        series_known=seen.inputs.series_known,
        approved=undertaking.is_approved(seen, around.caches, around.reader),
    )


def hosts(found: Found, maintenance: NodeMaintenance | None = None) -> dict[str, HostFacts]:
    """Return what is known of all hosts; gates are those of a maintenance."""
    about = maintenance or NodeMaintenance()
    gates, told = gates_of(about), gates_told(about)
    facts: dict[str, HostFacts] = {}
    under_way = (on_the_way.of_set(one) for one in found.referred.get(CONFIG_SETS, ()))
    changing = on_the_way.hosts([one for one in under_way if one is not None], found.hosts)
    for one in found.hosts:
        name, node = one.metadata.name, found.nodes.get(one.metadata.name)
        failing = gates.failing(one, node)
        # The operator asks from where it is; from here the answer may be another.
        said = {where: found or told[where].get(name) for where, found in failing.items()}
        known = observing.host_facts(one, node, None, said)
        facts[name] = observing.with_change(known, changing.get(name, ""))
    return facts
