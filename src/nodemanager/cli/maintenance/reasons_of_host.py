"""Everything that a host waits for: maintenances that mean it, and what else keeps it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from nodemanager.api.common import managednode, node_conditions
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.maintenance_status import WaitReason
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.cli.maintenance import judging
from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.maintenance.reading import NamespaceObjects
from nodemanager.cli.views import output
from nodemanager.cli.views.describing import MESSAGE_LIMIT
from nodemanager.cli.views.maintenance import wait_view
from nodemanager.cli.views.maintenance.wait_view import BEGINS, Why
from nodemanager.cli.views.output import parse_time
from nodemanager.fleet.maintenance.claims import Claim, Unreadable
from nodemanager.fleet.maintenance.decide import HostWait
from nodemanager.fleet.maintenance.facts import HostFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.states import STATES
from nodemanager.kube import conditions

NEXT_SLOT: Final = (
    "The next slot of its spec.upgrade tries again; `nodemanager describe nodetask {}` tells more."
)


def of_host(host: ManagedNode, found: NamespaceObjects, judged: Iterable[Judged]) -> list[Why]:
    """Return all that keeps a host, and what becomes of it in maintenances that mean it; nothing twice."""
    kept = list(others(host, found))
    told = {(one.maintenance, one.run, one.code) for one in kept}
    more = concerning(host.metadata.name, judged)
    return [*kept, *(one for one in more if (one.maintenance, one.run, one.code) not in told)]


def concerning(host: str, judged: Iterable[Judged]) -> Iterator[Why]:
    """Yield what becomes of a host in every maintenance that means it; what is under way comes first."""
    for one in sorted(judged, key=lambda each: not each.run):
        if host in one.names or host in one.hosts.waits:
            yield _of_maintenance(host, one)


def _of_maintenance(host: str, judged: Judged) -> Why:
    name, problem = judged.maintenance.metadata.name, judged.problem
    wait = judged.hosts.waits.get(host)
    told = _told(judged.maintenance.status.waiting, host)
    if told is not None and (wait is None or told.reason == Reason.POD_PROTECTED):
        # The operator asked gates of health and pods, which we did not.
        wait = HostWait(
            host,
            Reason(told.reason),
            told.object,
            parse_time(told.since),
            parse_time(told.next_check),
        )
    if wait is not None:
        message = problem.message if problem is not None and wait.reason is problem.reason else ""
        return wait_view.why(host, wait, name, judged.run, message)
    if host in judged.hosts.starts:
        said = "Nothing to do: its turn has come; the operator begins with it at its next look."
        return Why(BEGINS, name, judged.run, remedy=said)
    found = judged.hosts.progress.get(host)
    if found is None:  # it was made after the run began
        said = "It joined after the run began, and is part of the next one."
        return Why(Reason.NOTHING_DUE.value, name, judged.run, next_check=judged.next_run, remedy=said)
    reason = found.reason or Reason.SUCCEEDED
    return wait_view.why(
        host, HostWait(host, reason, since=found.ended, next_check=judged.next_run), name, judged.run
    )


def _told(waiting: Iterable[WaitReason], host: str) -> WaitReason | None:
    known = {reason.value for reason in Reason}
    return next((one for one in waiting if host in one.first and one.reason in known), None)


def others(host: ManagedNode, found: NamespaceObjects) -> Iterator[Why]:
    """Yield what keeps a host from being worked on, whatever maintenances say."""
    name = host.metadata.name
    facts = judging.hosts(found)[name]
    yield from _of_life(host, facts)
    yield from _of_claim(name, facts, found.tasks)
    if facts.health.held:
        yield _said(host, Reason.HOST_HELD, node_conditions.HELD)
    if (since := managednode.upgrading_since(host.status)) is not None:
        wait = HostWait(name, Reason.HOST_UPGRADING, f"managednode/{name}", parse_time(since))
        yield wait_view.why(name, wait, "", "")
    if facts.changing:
        yield wait_view.why(name, HostWait(name, Reason.HOST_CHANGING, f"configset/{facts.changing}"), "", "")
    if since is None and facts.node is not None and facts.node.cordoned and not facts.node.ours:
        yield wait_view.why(name, HostWait(name, Reason.NODE_CORDONED, f"node/{name}"), "", "")
    if facts.node is not None and not facts.node.ready:
        yield wait_view.why(name, HostWait(name, Reason.NODE_NOT_READY, f"node/{name}"), "", "")
    if managednode.ANNOTATION_HOLD in host.metadata.annotations:
        said = f"Remove the annotation {managednode.ANNOTATION_HOLD}: it holds back upgrades of its own."
        yield Why("UpgradeHeld", object=f"managednode/{name}", remedy=said)


def _of_life(host: ManagedNode, facts: HostFacts) -> Iterator[Why]:
    if facts.health.alive is None:
        name = host.metadata.name
        wait = HostWait(name, Reason.HOST_WITHOUT_AGENT, f"managednode/{name}")
        yield wait_view.why(name, wait, "", "")
    elif not facts.health.alive:
        yield _said(host, Reason.HOST_SILENT, node_conditions.ALIVE)


def _of_claim(name: str, facts: HostFacts, tasks: Iterable[NodeTask]) -> Iterator[Why]:
    claim = facts.claim
    if isinstance(claim, Unreadable):
        wait = HostWait(name, Reason.CLAIM_UNREADABLE, f"managednode/{name}")
        yield wait_view.why(name, wait, "", "", f"its annotation of a visit: {claim.why}")
    elif isinstance(claim, Claim) and claim.repairs:
        if claim.holds:  # what became of one that has ended says `reasons_of_drift`
            yield wait_view.why(
                name,
                HostWait(name, Reason.REPAIRING, claim.object, claim.since, claim.expires),
                "",
                claim.run,
            )
    elif isinstance(claim, Claim) and claim.is_upgrade and claim.state in STATES:
        wait = HostWait(
            name, STATES[claim.state].reason, f"nodetask/{claim.task}", claim.since, claim.expires
        )
        yield wait_view.why(name, wait, "", claim.run, "it is upgraded, as its spec.upgrade says")
    elif isinstance(claim, Claim) and not claim.holds and claim.reason not in (None, Reason.SUCCEEDED):
        ended = HostWait(name, claim.reason or Reason.SUCCEEDED, f"nodetask/{claim.task}", claim.since)
        said = claim.missing or next(
            (one.status.message for one in tasks if one.metadata.name == claim.task), ""
        )
        message = f"its last visit ended {claim.state}" + (f": {said}" if said else "")
        found = wait_view.why(
            name, ended, claim.maintenance, claim.run, output.one_line(message, MESSAGE_LIMIT)
        )
        yield found._replace(remedy=NEXT_SLOT.format(claim.task)) if claim.is_upgrade else found


def _said(host: ManagedNode, reason: Reason, condition: str) -> Why:
    """Return a reason that a condition of the host tells more about."""
    name, found = host.metadata.name, conditions.get(host.status.conditions, condition)
    since = parse_time(found.last_transition_time) if found is not None else None
    message = found.message if found is not None else ""
    return wait_view.why(name, HostWait(name, reason, f"managednode/{name}", since), "", "", message)
