"""Facts about hosts, Nodes and tasks, in the terms of the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import ManagedNode, is_held, upgrading_since
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.api.maintenance.nodetask import NOT_DONE, RUN, NodeTask
from nodemanager.api.rights import host_rights
from nodemanager.controllers.disruption.nodes import Node
from nodemanager.controllers.node_maintenances.changing_hosts import ChangingHosts
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, Unreadable, taken_back
from nodemanager.fleet.maintenance.facts import (
    ENDS,
    HALTED,
    SUCCEEDED,
    UNDONE,
    GateFinding,
    HostFacts,
    HostHealth,
    NodeFacts,
    TaskFacts,
)
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import conditions, times
from nodemanager.kube.core import Lease
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change

LABEL_ATTEMPT: Final = "maintenance.nodemanager/attempt"
_EVER: Final = datetime.fromisoformat("1970-01-01T00:00:00Z")


@dataclass(slots=True)
class SignsOfLife:
    """When we saw heartbeats renewed, by our own clock, because that of a host may be wrong."""

    now: Callable[[], datetime]
    _seen: dict[ObjectKey, datetime] = field(default_factory=dict)

    def saw(self, change: Change[Lease]) -> None:
        """Remember a renewal; a Lease that was there before we looked is none."""
        key = ObjectKey(change.key.namespace, host_rights.host_of(change.key.name))
        if change.new is None:
            self._seen.pop(key, None)
        elif change.old is None:
            self._seen[key] = _EVER
        elif change.old.spec.renew_time != change.new.spec.renew_time:
            self._seen[key] = self.now()

    def heard(self, host: ObjectKey) -> datetime | None:
        """Return when a host was last heard; None = it has no heartbeat that we could see."""
        return self._seen.get(host)


def host_facts(
    host: ManagedNode, node: Node | None, heard: datetime | None, health: Mapping[str, GateFinding | None]
) -> HostFacts:
    """Return the facts about a host; `health` has the gates that do not hold, before and after."""
    meta = host.metadata
    return HostFacts(
        name=meta.name,
        uid=meta.uid,
        created=datetime.fromisoformat(meta.creation_timestamp) if meta.creation_timestamp else _EVER,
        labels=meta.labels,
        health=HostHealth(
            alive=_alive(host),
            heard=heard,
            held=is_held(host),
            upgrading=upgrading_since(host.status) is not None,
            boot_id=node.status.node_info.boot_id if node is not None else "",
            failing_before=health.get("before"),
            failing_after=health.get("after"),
        ),
        node=None if node is None else NodeFacts(
            ready=node.is_ready, cordoned=node.spec.unschedulable, ours=node.mark is not None,
        ),
        claim=claim_of(host),
    )  # fmt: skip


@dataclass(slots=True)
class HostsKnown:
    """Facts about hosts, kept until they or their Nodes change: most stay the same for a long time."""

    _found: dict[tuple[str, str], tuple[tuple[str, str], HostFacts]] = field(default_factory=dict)
    """The facts, with the versions of the objects that they came from."""

    def facts(self, host: ManagedNode, node: Node | None) -> HostFacts:
        """Return the facts about a host, without its heartbeat and the gates of a maintenance."""
        key = host.metadata.namespace, host.metadata.name
        versions = host.metadata.resource_version, node.metadata.resource_version if node is not None else ""
        before = self._found.get(key)
        if before is not None and before[0] == versions:
            return before[1]
        found = host_facts(host, node, None, {})
        self._found[key] = versions, found
        return found

    def forget(self, change: Change[ManagedNode]) -> None:
        """Forget a host that is gone."""
        if change.new is None:
            self._found.pop(change.key, None)


@dataclass(frozen=True, slots=True)
class HostObservation:
    """The facts about hosts, for any kind of work on them."""

    nodes: Cache[Node]
    signs: SignsOfLife
    changing: ChangingHosts
    known: HostsKnown = field(default_factory=HostsKnown)

    def forget(self, change: Change[ManagedNode]) -> None:
        """Forget a host that is gone."""
        self.known.forget(change)
        self.changing.forget(change)

    def node_of(self, host: ManagedNode) -> Node | None:
        """Return the Node of a host; None = it has none, or we may not read Nodes."""
        return self.nodes.get(ObjectKey("", host.metadata.name)) if not self.nodes.refused else None

    def facts(self, hosts: Sequence[ManagedNode]) -> dict[str, HostFacts]:
        """Return the facts about hosts of one namespace by name, without their heartbeats."""
        namespace = hosts[0].metadata.namespace if hosts else ""
        changing = self.changing.of(namespace, hosts)
        found = {one.metadata.name: self.known.facts(one, self.node_of(one)) for one in hosts}
        found.update((name, with_change(found[name], change)) for name, change in changing.items())
        return found

    def heard(self, host: ManagedNode, known: HostFacts) -> HostFacts:
        """Return the facts about a host, with its heartbeat."""
        return replace(known, health=replace(known.health, heard=self.signs.heard(key_of(host))))

    def facts_heard(self, host: ManagedNode) -> HostFacts:
        """Return all facts about a host, with its heartbeat."""
        return self.heard(host, self.facts([host])[host.metadata.name])


def claim_of(host: ManagedNode) -> Claim | Unreadable | None:
    """Return the claim of the work on a host, or of the last one."""
    return claims.decode(host.metadata.annotations.get(ANNOTATION_VISIT))


def _alive(host: ManagedNode) -> bool | None:
    """Tell whether a host is heard; None = it never was."""
    found = conditions.get(host.status.conditions, node_conditions.ALIVE)
    if found is None or (found.status == conditions.UNKNOWN and host.status.heartbeat is None):
        return None
    return found.status == conditions.TRUE


def with_gates(host: HostFacts, failing: Mapping[str, GateFinding | None]) -> HostFacts:
    """Return a host with the gates that fail, of those before its visit and of those after it."""
    before, after = failing.get("before"), failing.get("after")
    if before is None and after is None:
        return host
    return replace(host, health=replace(host.health, failing_before=before, failing_after=after))


def with_change(host: HostFacts, change: str) -> HostFacts:
    """Return a host that is on its way to the change of a ConfigSet; empty = on its way to none."""
    return replace(host, changing=change) if change else host


def with_owner(host: HostFacts, owners: AbstractSet[str], now: datetime) -> HostFacts:
    """Return a host whose claim has lost its owner, with a claim that a person has to look at."""
    claim = host.claim
    owned = isinstance(claim, Claim) and (claim.uid in owners or claim.uid == host.uid)
    if not isinstance(claim, Claim) or not claim.holds or owned or now < claim.expires:
        return host
    return replace(host, claim=Unreadable(f"its maintenance {claim.maintenance} is gone"))


def ended_at(task: NodeTask, now: datetime) -> datetime | None:
    """Return when a task ended: the time of its host, but not before it was made nor in the future."""
    if task.status.phase not in ENDS:
        return None
    made = times.parse(task.metadata.creation_timestamp) or now
    return min(max(times.parse(task.status.finished_at) or made, made), max(now, made))


def task_facts(task: NodeTask, now: datetime) -> TaskFacts:
    """Return the facts about a task."""
    status = task.status
    reboots = {step.name for step in task.spec.steps if step.reboot is not None}
    label = task.metadata.labels.get(LABEL_ATTEMPT, "0")
    return TaskFacts(
        name=task.metadata.name,
        phase=status.phase,
        attempt=int(label) if label.isdecimal() else 0,
        taken=status.claim is not None,
        rebooting=any(step.name in reboots and step.phase == "Running" for step in status.steps),
        rebooted=any(step.name in reboots and _proves(step.evidence) for step in status.steps),
        ended=ended_at(task, now),
        windowed=task.spec.not_after is not None and not any(step.started_at for step in status.steps),
        not_done=_not_done(task),
    )


def run_tasks(tasks: Iterable[NodeTask], run: str, now: datetime) -> dict[str, list[TaskFacts]]:
    """Return the tasks of a run by host. A task that was taken back later did not succeed."""
    of_run = [task for task in tasks if task.metadata.labels.get(RUN) == run]
    undone = {taken_back(task.metadata.name): task.status.phase for task in of_run}
    found: dict[str, list[TaskFacts]] = {}
    for task in of_run:
        if taken_back(name := task.metadata.name):
            continue
        facts = task_facts(task, now)
        if name in undone and facts.is_end:
            facts = replace(facts, phase=UNDONE if undone[name] == SUCCEEDED else HALTED)
        found.setdefault(task.spec.node_name, []).append(facts)
    return found


def _not_done(task: NodeTask) -> Reason | None:
    """Return why a visit failed; an unknown reason in the annotation still means that it failed."""
    said = task.metadata.annotations.get(NOT_DONE)
    if not said:
        return None
    try:
        return Reason(said)
    except ValueError:
        return Reason.NOT_PROVEN


def unproven_reboot(task: NodeTask) -> str:
    """Return the first unproven reboot of a task that succeeded; empty = there is none."""
    for step in task.spec.steps:
        if step.reboot is None or step.reboot.when != "always":
            continue
        said = next((one.evidence for one in task.status.steps if one.name == step.name), {})
        if not _proves(said):
            return f"nodetask/{task.metadata.name}: no other boot proves step {step.name}"
    return ""


def _proves(evidence: Mapping[str, str]) -> bool:
    after = evidence.get("bootAfter", "")
    return bool(after) and after != evidence.get("bootBefore", "")


def durations(tasks: Iterable[NodeTask], now: datetime) -> Iterator[tuple[str, timedelta]]:
    """Return how long successful tasks took on each host; a task that takes another one back is no visit."""
    for task in tasks:
        if taken_back(task.metadata.name):
            continue
        made, ended = times.parse(task.metadata.creation_timestamp), ended_at(task, now)
        said = times.parse(task.status.finished_at)
        late = said is None or said > now  # with such a clock the length is not known
        if task.status.phase == SUCCEEDED and made is not None and ended is not None and not late:
            yield task.spec.node_name, ended - made
