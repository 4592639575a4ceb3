"""What comes next for a host that was begun with: one transition per call, and only by evidence.

    Cordoning -> Draining -> Working -> Rebooting -> Proving -> Soaking -> Returning -> Done
                                         (it was not proven) Undoing -> Returning -> Undone | Halted

A state is written down (`claims`) before its order is given; the order may be given again and again, so
a kill in between loses no work. A host that is no Kubernetes Node begins with Working; one that we
did not cordon ends without Returning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from nodemanager.api.maintenance.disruption import STOP, WAIT
from nodemanager.fleet.maintenance import facts
from nodemanager.fleet.maintenance.claims import GRACE, State, undo_name
from nodemanager.fleet.maintenance.facts import HostFacts, TaskFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.states import STATES, Move, Visit, VisitHold, VisitRules
from nodemanager.kube import wording

MISSING_MAX: Final = 256


def first_state(host: HostFacts, rules: VisitRules) -> State:
    """Return the first state of a host's visit."""
    return State.CORDONING if rules.cordons and host.node is not None else State.WORKING


def advance(visit: Visit) -> Move | VisitHold:
    """Return what comes next for a host."""
    return _NEXT[visit.claim.state](visit)


def _cordoning(visit: Visit) -> Move | VisitHold:
    node = visit.host.node
    if node is None or node.cordoned:
        return _to(visit, State.DRAINING) if node and visit.rules.drains else _begin_work(visit)
    if visit.now >= visit.claim.expires:
        return _give_back(visit, State.UNDONE, Reason.DEADLINE_EXCEEDED)
    return VisitHold(Reason.CORDONING, f"node/{visit.host.name}", visit.claim.expires)


def _draining(visit: Visit) -> Move | VisitHold:
    node, rules = visit.host.node, visit.rules
    if node is None or node.pods == 0:
        return _begin_work(visit)
    if visit.now >= visit.claim.expires:
        return _give_back(visit, State.UNDONE, Reason.DEADLINE_EXCEEDED)
    if rules.on_drain_timeout != WAIT and visit.passed >= rules.drain_timeout:
        end = State.HALTED if rules.on_drain_timeout == STOP else State.UNDONE
        return _give_back(visit, end, Reason.DRAIN_TIMED_OUT)
    until = visit.claim.expires
    if rules.on_drain_timeout != WAIT:
        until = min(until, visit.claim.since + rules.drain_timeout)
    return VisitHold(Reason.DRAINING, node.blocked_by or f"node/{visit.host.name}", until)


def _begin_work(visit: Visit) -> Move:
    # Draining may have taken until the window closed: nothing was done yet, so that nothing has to be undone.
    if not visit.may_work:
        return _give_back(visit, State.UNDONE, Reason.TIME_TOO_SHORT)
    return _to(visit, State.WORKING)


def _working(visit: Visit) -> Move | VisitHold:
    claim, task = visit.claim, visit.task
    if task is None:
        if claim.seen:
            return _give_back(visit, State.HALTED, Reason.TASK_LOST)
        if visit.now >= claim.expires:
            return _give_back(visit, State.UNDONE, Reason.DEADLINE_EXCEEDED)
        if not visit.may_work:  # the window closed before there was a task
            return _give_back(visit, State.UNDONE, Reason.TIME_TOO_SHORT)
        return VisitHold(Reason.TASK_NOT_TAKEN, f"nodetask/{claim.task}", claim.expires)
    if task.is_end:
        return _ended(visit, task)
    if not claim.seen:
        return Move(msgspec.structs.replace(claim, seen=True))
    if visit.now >= claim.expires and (late := _overdue(visit, task)) is not None:
        return late
    if task.rebooting and claim.state is State.WORKING:
        return _to(visit, State.REBOOTING)
    reason = STATES[claim.state].reason if task.taken else Reason.TASK_NOT_TAKEN
    until = claim.expires if visit.now < claim.expires else claim.expires + GRACE
    return VisitHold(reason, f"nodetask/{task.name}", until)


def _overdue(visit: Visit, task: TaskFacts) -> Move | None:
    """Return the end of a visit that took too long; None: its agent is about to end it."""
    if not task.taken:
        return _give_back(visit, State.UNDONE, Reason.DEADLINE_EXCEEDED)
    if not visit.host.health.alive:
        return _halt(visit, Reason.HOST_LOST)
    if visit.now >= visit.claim.expires + GRACE:
        return _halt(visit, Reason.DEADLINE_EXCEEDED)
    return None


def _ended(visit: Visit, task: TaskFacts) -> Move:
    match task.phase:
        case facts.SUCCEEDED:
            return _to(visit, State.PROVING)
        case facts.UNDONE:
            return _give_back(visit, State.UNDONE, Reason.TASK_UNDONE)
        case facts.HALTED:
            return _halt(visit, Reason.TASK_HALTED)
        case facts.EXPIRED if task.taken and visit.rules.undo_expired and visit.rules.can_undo:
            return _to(visit, State.UNDOING, reason=Reason.TASK_EXPIRED)
        case facts.EXPIRED if task.missed_window:
            return _give_back(visit, State.UNDONE, Reason.TIME_TOO_SHORT)
        case facts.EXPIRED:
            end = State.HALTED if task.taken else State.UNDONE
            return _give_back(visit, end, Reason.TASK_EXPIRED)
        case facts.REFUSED:
            return _give_back(visit, State.UNDONE, Reason.TASK_REFUSED)
        case _:
            return _give_back(visit, State.HALTED, Reason.TASK_FAILED)


def _unproven(visit: Visit) -> str:
    """Return what is missing before the host counts as well; empty = nothing."""
    host, claim, task = visit.host, visit.claim, visit.task
    if not host.health.alive:
        return f"managednode/{host.name}: silent"
    if host.node is not None and not host.node.ready:
        return f"node/{host.name}: not Ready"
    rebooted = task is not None and task.rebooted
    if rebooted and claim.boot_id and host.health.boot_id == claim.boot_id:
        return f"managednode/{host.name}: still the old boot"
    gate = host.health.failing_after
    return gate.said if gate is not None and not gate.is_open else ""


def _unasked(visit: Visit) -> str:
    """Return which gate was not asked yet; empty = none."""
    gate = visit.host.health.failing_after
    return gate.said if gate is not None and gate.is_open else ""


def _proving(visit: Visit) -> Move | VisitHold:
    heard = visit.host.health.heard
    stale = heard is not None and heard < visit.claim.since
    missing = f"managednode/{visit.host.name}: not heard of since" if stale else _unproven(visit)
    missing = missing or _unasked(visit)
    if not missing:
        if visit.rules.soak:
            return _to(visit, State.SOAKING)
        return _done(visit)
    until = min(visit.claim.since + visit.rules.proof_timeout, visit.claim.expires)
    if visit.now < until:
        return VisitHold(Reason.PROVING, missing, until)
    if not visit.host.health.alive:
        return _halt(visit, Reason.HOST_LOST)
    missing = wording.flat(missing, MISSING_MAX)
    if visit.rules.can_undo:
        return _to(visit, State.UNDOING, reason=Reason.NOT_PROVEN, missing=missing)
    return _to(visit, State.RETURNING, end=State.HALTED, reason=Reason.NOT_PROVEN, missing=missing)


def _soaking(visit: Visit) -> Move | VisitHold:
    until = visit.claim.since + visit.rules.soak
    if _unproven(visit):
        return _to(visit, State.PROVING)
    if visit.now >= until and not _unasked(visit):
        return _done(visit)
    return VisitHold(Reason.SOAKING, _unasked(visit) or f"managednode/{visit.host.name}", until)


def _undoing(visit: Visit) -> Move | VisitHold:
    undo, claim = visit.undo, visit.claim
    if undo is not None and undo.is_end:
        if undo.phase == facts.SUCCEEDED:
            return _give_back(visit, State.UNDONE, claim.reason or Reason.NOT_PROVEN)
        return _halt(visit, Reason.TASK_HALTED)
    if visit.passed >= GRACE:
        return _halt(visit, Reason.TASK_HALTED)
    return VisitHold(Reason.UNDOING, f"nodetask/{undo_name(claim.task)}", claim.since + GRACE)


def _returning(visit: Visit) -> Move | VisitHold:
    claim, node = visit.claim, visit.host.node
    stays = node is not None and claim.cordoned and node.cordoned and node.ours
    if not stays:
        # No work of ours is left there: a lost host that comes back then has nothing to give back.
        end = claim.end or State.HALTED
        return Move(msgspec.structs.replace(claim, state=end, since=visit.now, cordoned=False))
    if visit.passed >= GRACE:
        return _halt(visit, claim.reason or Reason.RETURNING)
    return VisitHold(Reason.RETURNING, f"node/{visit.host.name}", claim.since + GRACE)


def _ended_before(visit: Visit) -> Move | VisitHold:
    """Go on with a host that was given up as lost, and has come back."""
    claim, task = visit.claim, visit.task
    back = claim.state is State.HALTED and claim.reason is Reason.HOST_LOST and visit.host.health.alive
    # No task: it was deleted, which is done to those that have ended.
    if back and claim.cordoned and (task is None or task.is_end):
        return _give_back(visit, State.HALTED, Reason.HOST_LOST)
    return VisitHold(claim.reason or Reason.SUCCEEDED, f"managednode/{visit.host.name}")


def _to(visit: Visit, state: State, **changes: Any) -> Move:
    return Move(msgspec.structs.replace(visit.claim, state=state, since=visit.now, **changes))


def _give_back(visit: Visit, end: State, reason: Reason) -> Move:
    return _to(visit, State.RETURNING, end=end, reason=reason)


def _done(visit: Visit) -> Move:
    """End it well; a host whose Node we did not cordon has nothing that could be given back."""
    if visit.claim.cordoned:
        return _give_back(visit, State.DONE, Reason.SUCCEEDED)
    return _to(visit, State.DONE, reason=Reason.SUCCEEDED)


def _halt(visit: Visit, reason: Reason) -> Move:
    """End the visit without giving the host back: its state is unknown, so it stays cordoned."""
    return _to(visit, State.HALTED, reason=reason)


_NEXT: Final[dict[State, Callable[[Visit], Move | VisitHold]]] = {
    State.CORDONING: _cordoning,
    State.DRAINING: _draining,
    State.WORKING: _working,
    State.REBOOTING: _working,
    State.PROVING: _proving,
    State.SOAKING: _soaking,
    State.UNDOING: _undoing,
    State.RETURNING: _returning,
    State.DONE: _ended_before,
    State.UNDONE: _ended_before,
    State.HALTED: _ended_before,
}
