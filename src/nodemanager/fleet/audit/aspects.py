"""What is recorded of each kind: facts about an object, by names that a record has as `aspect`.

Each fact that appears, changes or goes is a record. So an operator that starts compares what it sees
with what was last recorded, and loses no change that can still be seen.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from nodemanager.api import kinds
from nodemanager.api.audit import record as records
from nodemanager.api.audit import step_digests
from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS
from nodemanager.api.audit.record import RecordedGate, RecordedStep
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.common.rollout import RolloutStatus
from nodemanager.api.common.rolloutpolicy import ROLLOUT_POLICIES
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES
from nodemanager.api.maintenance.maintenance_status import OWN_REQUEST, NodeMaintenanceStatus
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS, MaintenanceApprovalSpec
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.api.maintenance.nodetask import ENDED, NODE_TASKS, NodeTaskSpec, NodeTaskStatus
from nodemanager.api.rights import host_rights
from nodemanager.fleet.audit import host_aspects, observed
from nodemanager.fleet.audit.observed import ACCOUNTS, Aspect, ObservedObject, SeenObject
from nodemanager.kube import sharing
from nodemanager.kube.objects import Struct

SPEC: Final = "spec"
LABELS: Final = "labels"
LEAVING: Final = "leaving"
MAX_VALUE: Final = 90
"""Most characters of a value: less than the limit to which any record is cut."""
Found = Iterator[tuple[str, Aspect]]


def look(kind: str, obj: ObservedObject) -> ObservedObject:
    """Reduce an object to the parts that records are made of."""
    if obj.packed:
        return obj
    meta = obj.metadata
    about = observed.object_of(kind, obj)
    if kind == ACCOUNTS.kind and not host_rights.host_of(meta.name):
        return ObservedObject(metadata=_kept(meta), packed=observed.packed(SeenObject(object=about)))
    aspects = {SPEC: Aspect(value=f"{about.generation} {about.spec_digest[:16]}")}
    if kind in (CONFIG_SETS.kind, MANAGED_NODES.kind):
        aspects[LABELS] = Aspect(value=records.digest(meta.labels)[:16], verb="relabel")
    if meta.deletion_timestamp:
        aspects[LEAVING] = Aspect(value=meta.deletion_timestamp, verb="leave")
    told = None
    actor, host = observed.actor_of(kind, obj), meta.name if kind == MANAGED_NODES.kind else ""
    # An older version may not be able to read some parts; the parts that it can read are recorded.
    with contextlib.suppress(msgspec.DecodeError, ValueError):
        if kind == NODE_TASKS.kind:
            host = observed.decoded(obj.spec, _NamesHost).node_name
        if kind == ACCOUNTS.kind:
            host = host_rights.host_of(meta.name)
        if kind == MANAGED_NODES.kind:
            told = host_aspects.told(obj)
        aspects.update((name, _short(one)) for name, one in _OF[kind](obj))
    seen = SeenObject(
        object=about,
        created=meta.creation_timestamp or "",
        actor=actor,
        host=host,
        aspects=aspects,
        told=told,
    )
    return ObservedObject(metadata=_kept(meta), packed=observed.packed(seen))


def _kept(meta: observed.ObservedMeta) -> observed.ObservedMeta:
    """Return what a cache needs of metadata."""
    kept = observed.ObservedMeta(
        name=meta.name, namespace=meta.namespace, resource_version=meta.resource_version
    )
    return sharing.shared_meta(kept)


def _short(aspect: Aspect) -> Aspect:
    """Return an aspect whose value a record holds in full, because later it is compared with the object."""
    if len(aspect.value) <= MAX_VALUE:
        return aspect
    digest = hashlib.sha256(aspect.value.encode()).hexdigest()[:16]
    return msgspec.structs.replace(aspect, value=f"{aspect.value[: MAX_VALUE - 17]}~{digest}")


def _nothing(_obj: ObservedObject) -> Found:
    """Return no aspects: only the spec of such a kind is recorded."""
    yield from ()


class _NamesHost(Struct):
    """The part of a task that names its host."""

    node_name: str = ""


# Maintenances


def _of_maintenance(obj: ObservedObject) -> Found:
    status = observed.decoded(obj.status, NodeMaintenanceStatus)
    plan = status.plan.hash if status.plan else ""
    gates = [RecordedGate(reason=one.reason, object=one.object, hosts=one.hosts) for one in status.waiting]
    if status.window is not None:
        gates.insert(0, RecordedGate(reason="WindowOpen" if status.window.open else "WindowClosed"))
    if status.phase:
        yield "phase", Aspect(value=status.phase, verb="decide", plan_hash=plan, gates=gates)
    if (run := status.run) is not None:
        message = ", ".join(run.operations)
        yield "run", Aspect(value=run.id, verb="start", message=message, plan_hash=plan, gates=gates)
        if run.stopped_at:
            yield "stopped", Aspect(value=run.stopped_at, verb="halt", plan_hash=plan)
        if run.retried_at:
            yield "retried", Aspect(value=run.retried_at, verb="retry", plan_hash=plan)
    for ended in status.history[:1]:
        yield "outcome", Aspect(value=f"{ended.id} {ended.outcome}", verb="end", reason=ended.outcome)
    for one in status.refused_approvals:
        verb = "refuse" if one.reason == OWN_REQUEST else "void"
        said = f"approved by {one.approver}"
        yield (
            f"approval/{one.name}",
            Aspect(
                value=one.reason,
                verb=verb,
                reason=one.reason,
                message=said,
                plan_hash=plan,
                approval=one.name,
            ),
        )
    for wait in status.waiting:
        told = f"{wait.hosts} hosts" + (f": {wait.object}" if wait.object else "")
        yield (
            f"wait/{wait.reason}",
            Aspect(value=wait.object or "all", verb="wait", reason=wait.reason, message=told),
        )


# Tasks

_TASK_VERBS: Final = {"Running": "start", "Failed": "fail", "Undone": "undo", "Halted": "halt"}


def _of_task(obj: ObservedObject) -> Found:
    spec, status = observed.decoded(obj.spec, NodeTaskSpec), observed.decoded(obj.status, NodeTaskStatus)
    plan = spec.reason.plan_hash if spec.reason else ""
    if status.phase:
        verb = _TASK_VERBS.get(status.phase, "end" if status.phase in ENDED else "decide")
        yield (
            "phase",
            Aspect(
                value=status.phase,
                verb=verb,
                message=status.message,
                host=spec.node_name,
                by_host=True,
                plan_hash=plan,
            ),
        )
    wanted = {step.name: step for step in spec.steps}
    for done in status.steps:
        if done.finished_at is None:
            continue
        argv = step_digests.argv_digest(wanted[done.name]) if done.name in wanted else ""
        step = RecordedStep(
            name=done.name, argv_digest=argv, exit_code=done.exit_code, attempts=done.attempts
        )
        yield (
            f"step/{done.name}",
            Aspect(
                value=f"{done.phase} {done.finished_at}",
                verb="step",
                reason=done.phase,
                host=spec.node_name,
                by_host=True,
                plan_hash=plan,
                step=step,
                evidence_digest=records.digest(done.evidence) if done.evidence else "",
            ),
        )


# ConfigSets


class _HasRollout(Struct):
    """The part of a ConfigSet's status that says how far its change is."""

    rollout: RolloutStatus | None = None


def _of_config_set(obj: ObservedObject) -> Found:
    rollout = observed.decoded(obj.status, _HasRollout).rollout
    if rollout is None:
        return
    reason, message = rollout.reason, rollout.message
    if rollout.phase:
        yield "rollout", Aspect(value=rollout.phase, verb="decide", reason=reason, message=message)
    if rollout.next is not None:
        value = f"revision {rollout.next.revision} stage {rollout.stage} threshold {rollout.threshold}"
        yield "stage", Aspect(value=value, verb="stage", reason=reason, plan_hash=rollout.next.digest)
    if rollout.refused is not None:
        yield "refused", Aspect(value=f"revision {rollout.refused.revision}", verb="undo", reason=reason)


def _of_approval(obj: ObservedObject) -> Found:
    said = observed.decoded(obj.spec, MaintenanceApprovalSpec)
    yield (
        "approval",
        Aspect(
            value=said.maintenance or said.config_set,
            verb="approve",
            message=said.comment,
            plan_hash=said.plan_hash,
            approval=obj.metadata.name,
        ),
    )


FILE: Final = "src/nodemanager/fleet/audit/aspects.py"
PART: Final = "entry for the audit log"

ASPECTS: Final[dict[str, Callable[[ObservedObject], Found]]] = {
    MANAGED_NODES.qualified_name: host_aspects.of_host,
    CONFIG_SETS.qualified_name: _of_config_set,
    CONFIG_SET_REVISIONS.qualified_name: _nothing,
    CONFIG_SET_PREVIEWS.qualified_name: _nothing,
    ROLLOUT_POLICIES.qualified_name: _nothing,
    NODE_MAINTENANCES.qualified_name: _of_maintenance,
    MAINTENANCE_WINDOWS.qualified_name: _nothing,
    NODE_SERIES.qualified_name: _nothing,
    NODE_TASKS.qualified_name: _of_task,
    NODE_OPERATION_TEMPLATES.qualified_name: _nothing,
    MAINTENANCE_APPROVALS.qualified_name: _of_approval,
    EDGE_CLUSTERS.qualified_name: _nothing,
    EDGE_PROFILES.qualified_name: _nothing,
    AUDIT_CHECKPOINTS.qualified_name: _nothing,
    AUDIT_SEGMENTS.qualified_name: _nothing,
}
"""What is recorded of a kind besides its spec and its end, by qualified name; `_nothing` records no more."""

kinds.require(PART, ASPECTS, FILE)

_OF: Final = {kind.resource.kind: ASPECTS[kind.resource.qualified_name] for kind in kinds.KINDS} | {
    ACCOUNTS.kind: host_aspects.of_account
}
