"""The plan of a maintenance: which host comes when, what happens to it, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nodemanager.cli.maintenance.draining import Leaving
from nodemanager.cli.maintenance.judged import Judged, RealtimeJudged
from nodemanager.cli.views import output
from nodemanager.cli.views.maintenance import progress, wait_view
from nodemanager.fleet.maintenance import reasons
from nodemanager.fleet.maintenance.progress import RunProgress
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import times
from nodemanager.kube.wording import plural

LEFT_OUT: Final = 10
"""Names of those that take no part."""
NOTHING: Final[Mapping[str, Leaving]] = MappingProxyType({})


class Planned(NamedTuple):
    """One host of a plan."""

    order: int
    host: str
    group: str
    state: str
    disruption: str
    starts_at: datetime | None
    ends_at: datetime | None
    reason: str
    """Why it waits, or how it ended; empty = its time has not come."""


def hosts(judged: Judged) -> list[Planned]:
    """Return the hosts of a plan, in their order."""
    plan = judged.plan
    visits = plan.visits if plan is not None else {}
    disruption = plan.work.disruption if plan is not None else "-"
    found, order = [], 0
    for group in judged.inputs.groups:
        for host in group.hosts:
            order += 1
            start, end = visits.get(host, (None, None))
            found.append(
                Planned(
                    order,
                    host,
                    group.name,
                    _state(judged, host),
                    disruption,
                    start,
                    end,
                    _reason(judged, host),
                )
            )
    return found


def _state(judged: Judged, host: str) -> str:
    return judged.hosts.progress.get(host, RunProgress()).stage.value


def _reason(judged: Judged, host: str) -> str:
    if host in judged.hosts.waits:
        return judged.hosts.waits[host].reason.value
    if host in judged.hosts.starts:
        return wait_view.BEGINS
    found = judged.hosts.progress.get(host)
    return found.reason.value if found is not None and found.reason is not None else ""


def text(judged: Judged, now: datetime, leaving: Mapping[str, Leaving] = NOTHING, limit: int = 0) -> str:
    """Return the plan in words and columns; of very many hosts, the first ones."""
    report = output.Report()
    _add_head(report, judged, now)
    everything = hosts(judged)
    rows = [_row(one) for one in everything]
    if not rows:
        return report.text()
    shown = rows[:limit] if limit else rows
    report.table("Order", ["#", "HOST", "DOES", "BEGINS", "ENDS", "STATE", "WHY"], shown)
    more = len(rows) - len(shown)
    said = report.text() + (f"\n  ... and {plural(more, 'host')} more (all of them: --all)" if more else "")
    return said + _drains(leaving)


def _drains(leaving: Mapping[str, Leaving]) -> str:
    """Return which pods have to leave, where something keeps them or there are any at all."""
    rows = [[host, str(one.pods), ", ".join(one.kept_by) or "-"] for host, one in leaving.items() if one.pods]
    if not rows:
        return ""
    report = output.Report()
    report.table("Pods that have to leave", ["HOST", "PODS", "KEPT NOW BY PODDISRUPTIONBUDGET"], rows)
    return f"\n{report.text()}"


def _row(one: Planned) -> list[str]:
    return [
        str(one.order), one.host, one.disruption, _short(one.starts_at), _short(one.ends_at), one.state,
        one.reason or "-",
    ]  # fmt: skip


def _short(moment: datetime | None) -> str:
    return moment.strftime("%m-%d %H:%MZ") if moment is not None else "-"


def _add_head(report: output.Report, judged: Judged, now: datetime) -> None:
    maintenance, plan = judged.maintenance, judged.plan
    report.field("Maintenance", maintenance.metadata.name)
    if judged.problem is not None:
        report.field("Problem", f"{judged.problem.reason}: {judged.problem.message}")
    report.field("Run", _run(judged, now))
    report.field("Hosts", series_words(judged))
    if left_out := judged.inputs.left_out.words(LEFT_OUT):
        report.field("Left out", left_out)
    if plan is not None:
        report.field("At once", plural(plan.at_once, "host"))
    report.field("Window", _window(judged, now))
    if plan is not None:
        ends = output.ahead(times.rfc3339(plan.ends_at), now) if plan.ends_at is not None else "not in sight"
        report.field("Expected end", ends)
        report.field("Hash", hash_of(judged))
    report.field("Approval", approval_words(judged))
    if (realtime := judged.realtime) is not None:
        by = f"approved by {', '.join(realtime.approvers)}" if realtime.approvers else "not enforced yet"
        said = f"{', '.join(realtime.plan.operations)}: {by}; a change needs another approval"
        report.field("Realtime", said)
        report.field("Realtime hash", realtime.plan.hash)


def series_words(judged: Judged) -> str:
    """Return how many hosts are meant, and by what."""
    spec, many = judged.maintenance.spec, plural(len(judged.names), "host")
    if spec.series_ref is not None:
        return f"{many}, by NodeSeries {spec.series_ref.name}"
    if spec.series is None:
        return f"{many}: all of namespace {judged.maintenance.metadata.namespace}, as spec.series is omitted"
    return many


def _run(judged: Judged, now: datetime) -> str:
    status = judged.maintenance.status
    if status.run is not None and status.run.id:
        counts = f": {progress.summary(status.hosts)}" if status.hosts is not None else ""
        state, since = "under way", status.run.started_at
        if status.run.stopped_at:
            state, since = "stopped", status.run.stopped_at
        return f"{status.run.id}, {state} since {output.ago(since, now)}{counts}"
    if judged.run:
        return "begins at the operator's next look"
    return (
        f"next {output.ahead(times.rfc3339(judged.next_run), now)}"
        if judged.next_run is not None
        else "none is due"
    )


def _window(judged: Judged, now: datetime) -> str:
    view = judged.inputs.view
    if view.open:
        return f"open until {output.ahead(times.rfc3339(view.closes_at), now)}" if view.closes_at else "open"
    return (
        f"opens {output.ahead(times.rfc3339(view.opens_at), now)}"
        if view.opens_at
        else "shut, no opening in sight"
    )


def hash_of(judged: Judged) -> str:
    """Return the hash of the plan: of a run under way, what the operator says of the present spec."""
    status = judged.maintenance.status
    current = status.observed_generation >= judged.maintenance.metadata.generation
    if status.run is not None and status.plan is not None and status.plan.hash and current:
        return status.plan.hash
    return judged.plan.hash if judged.plan is not None else ""


def approval_words(judged: Judged) -> str:
    """Return whether an approval is needed, and who gave it."""
    approval = judged.maintenance.spec.approval
    if approval is None or not approval.required:
        return "not required"
    if judged.approvers:
        return f"by {', '.join(judged.approvers)}"
    if judged.realtime is not None and judged.realtime.approvers and judged.plan is None:
        return "nothing is left to approve"
    whose = f" of somebody else than {approval.requester or 'requester'}" if approval.different_user else ""
    return f"required{whose}: nodemanager maintenance approve {judged.maintenance.metadata.name}"


def plain(
    judged: Judged, leaving: Mapping[str, Leaving] = NOTHING, unread: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the plan for programs."""
    plan, problem = judged.plan, judged.problem
    return {
        "maintenance": judged.maintenance.metadata.name,
        "run": judged.run,
        "nextRun": _moment(judged.next_run),
        "hash": hash_of(judged),
        "realtime": _plain_realtime(judged.realtime),
        "allHosts": judged.maintenance.spec.series is None and judged.maintenance.spec.series_ref is None,
        "atOnce": plan.at_once if plan is not None else None,
        "startsAt": _moment(plan.starts_at) if plan is not None else None,
        "endsAt": _moment(plan.ends_at) if plan is not None else None,
        "problem": {"reason": problem.reason, "object": problem.object, "message": problem.message}
        if problem is not None
        else None,
        "withoutAgent": [*judged.inputs.left_out.agentless],
        "withoutNode": [*judged.inputs.left_out.nodeless],
        "hosts": [_plain_host(judged, one, leaving.get(one.host)) for one in hosts(judged)],
        "unread": [*unread],
    }


def _plain_realtime(found: RealtimeJudged | None) -> dict[str, Any] | None:
    if found is None:
        return None
    plan = found.plan
    return {"hash": plan.hash, "operations": [*plan.operations], "approvers": [*found.approvers]}


def _plain_host(judged: Judged, one: Planned, leaving: Leaving | None) -> dict[str, Any]:
    wait = judged.hosts.waits.get(one.host)
    name = judged.maintenance.metadata.name
    remedy = reasons.remedy(Reason(one.reason), name, one.host, wait.object) if wait is not None else ""
    return {
        "order": one.order, "host": one.host, "group": one.group, "state": one.state,
        "disruption": one.disruption, "startsAt": _moment(one.starts_at), "endsAt": _moment(one.ends_at),
        "reason": one.reason, "object": wait.object if wait is not None else "", "remedy": remedy,
        "pods": leaving.pods if leaving is not None else None,
        "keptBy": [*leaving.kept_by] if leaving is not None else [],
    }  # fmt: skip


def _moment(moment: datetime | None) -> str | None:
    return times.rfc3339(moment) if moment is not None else None
