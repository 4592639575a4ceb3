"""What a maintenance refers to, what that does to each host, and whether people have approved it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, AuditCheckpoint
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.maintenance_status import MAX_REFUSED, PlanState, RealtimePlan, RunState
from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS, MaintenanceApproval
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS, MaintenanceWindow
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_ABORT, NodeMaintenance
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES, NodeOperationTemplate
from nodemanager.api.maintenance.nodeseries import NODE_SERIES, NodeSeries
from nodemanager.api.maintenance.nodetask import RUN, NodeTask
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.nodes import NODES, Node
from nodemanager.controllers.node_maintenances import undertaking
from nodemanager.controllers.node_maintenances.inputs import InputReader
from nodemanager.controllers.node_maintenances.status import remembering
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot
from nodemanager.controllers.registration import Caches
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube.objects import ObjectKey, ObjectMeta
from nodemanager.runtime.cache import Cache
from support.visited_api import VisitedApi

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
AT = "2026-11-16T06:00:00Z"
STEP: dict[str, Any] = {"name": "boot", "reboot": {"when": "always"}}
PATCH = {"name": "patch", "type": "one-shot", "steps": [STEP]}
FROM_EIGHT = {"schedules": [{"start": "08:00", "duration": "1h"}]}
UNTIL_SEVEN = {"schedules": [{"start": "06:00", "duration": "1h"}]}
RUNNING: dict[str, Any] = {"id": "r1", "operations": ["patch"], "startedAt": AT, "slots": {"patch": "one"}}
KINDS: Any = (
    MAINTENANCE_WINDOWS, NODE_SERIES, NODE_OPERATION_TEMPLATES, NODES, AUDIT_CHECKPOINTS,
    MAINTENANCE_APPROVALS,
)  # fmt: skip


def maintenance(
    status: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **spec: Any
) -> NodeMaintenance:
    """Return a maintenance that reboots all hosts at any time, unless its spec says otherwise."""
    meta = {"name": "monday", "namespace": "ns", "uid": "m-1", **(metadata or {})}
    said = {"window": {"always": True}, "operations": [PATCH], **spec}
    return msgspec.convert({"metadata": meta, "spec": said, "status": status or {}}, NodeMaintenance)


def host(name: str, **labels: str) -> ManagedNode:
    return ManagedNode(ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}", labels=labels))


class World:
    """The caches of an operator."""

    def __init__(self) -> None:
        client = Client(VisitedApi())
        self.caches = Caches("maintenance", {kind: Cache(client, kind) for kind in KINDS})
        self.reader = InputReader(client, self.caches)

    def have(self, kind: Any, name: str, obj: Any, namespace: str = "ns") -> None:
        self.caches.of(kind)._put(ObjectKey(namespace, name), obj)

    def approve(self, plan: str, name: str = "a", made: str = AT, namespace: str = "ns", **spec: str) -> None:
        said = {"maintenance": "monday", "planHash": plan, "approver": "jo", **spec}
        meta = {"name": name, "namespace": namespace, "creationTimestamp": made or None}
        one = msgspec.convert({"metadata": meta, "spec": said}, MaintenanceApproval)
        self.have(MAINTENANCE_APPROVALS, name, one, namespace)

    async def seen(
        self, one: NodeMaintenance, *hosts: ManagedNode, tasks: Sequence[NodeTask] = (), labelled: int = -1
    ) -> MaintenanceSnapshot:
        nodes = hosts or (host("a"), host("b"))
        inputs = await self.reader.read(one, nodes, NOW, labelled)
        return MaintenanceSnapshot(one, NOW, nodes, inputs, tasks, remembering.run_of(one))


# What it refers to


@pytest.mark.parametrize(
    ("spec", "reason", "said"),
    [
        pytest.param({}, None, "", id="all there"),
        pytest.param({"window": None, "windowRef": {"name": "w"}}, "WindowNotFound", "MaintenanceWindow w"),
        pytest.param({"window": None}, "WindowNotFound", "there is no MaintenanceWindow"),
        pytest.param({"window": {"always": True, "timeZone": "X"}}, "WindowInvalid", "until then it is shut"),
        pytest.param({"seriesRef": {"name": "s"}}, "SeriesNotFound", "there is no NodeSeries s"),
        pytest.param({"series": {"selector": {"matchLabels": {"a": "b"}}}}, "NoHosts", "chooses no host"),
        pytest.param(
            {"operations": [{"name": "x", "type": "one-shot", "templateRef": {"name": "t"}}]},
            "TemplateNotFound", "there is no NodeOperationTemplate t",
        ),
        pytest.param(
            {"operations": [{"name": "x", "type": "one-shot", "templateRef": {"name": "empty"}}, PATCH]},
            "StepsInvalid", "empty",
        ),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_what_it_refers_to(
    spec: dict[str, Any], reason: str | None, said: str
) -> None:
    world = World()
    world.have(NODE_OPERATION_TEMPLATES, "empty", NodeOperationTemplate())
    problem = (await world.seen(maintenance(**spec))).inputs.problem
    assert (problem.reason if problem is not None else None) == reason
    assert said in (problem.message if problem is not None else "")


async def test_it_is_read_where_it_is() -> None:
    world = World()
    for namespace, label in (("ns", "b"), ("elsewhere", "c")):
        window = msgspec.convert({"spec": UNTIL_SEVEN}, MaintenanceWindow)
        world.have(MAINTENANCE_WINDOWS, "w", window, namespace)
        series = {"spec": {"selector": {"matchLabels": {"a": label}}}}
        world.have(NODE_SERIES, "s", msgspec.convert(series, NodeSeries), namespace)
        template = {"spec": {"steps": [STEP]}}
        world.have(NODE_OPERATION_TEMPLATES, "t", msgspec.convert(template, NodeOperationTemplate), namespace)
    operations = [
        {"name": "x", "type": "one-shot", "templateRef": {"name": "t"}}, {"name": "y", "type": "realtime"},
    ]  # fmt: skip
    one = maintenance(window=None, windowRef={"name": "w"}, seriesRef={"name": "s"}, operations=operations)
    found = (await world.seen(one, host("a", a="b"), host("b", a="c"))).inputs
    assert found.problem is None
    assert found.view.closes_at == NOW + HOUR
    assert [group.hosts for group in found.groups] == [("a",)]
    assert [operation.name for operation in found.operations] == ["x"]
    assert [step.name for step in found.work["x"].steps] == ["x-boot"]
    assert world.reader.run_work(one, ["x"]).steps == found.work["x"].steps
    assert world.reader.templates(one, one.spec.operations[0]).keys() == {"t"}
    assert world.reader.templates(one, one.spec.operations[1]) == {}
    assert world.reader.series(one).selector is not None
    assert world.reader.series(maintenance(seriesRef={"name": "gone"})).selector is None


async def test_hosts_are_chosen_by_labels_of_nodes_if_these_can_be_read() -> None:
    world = World()
    node = msgspec.convert({"metadata": {"name": "a", "labels": {"gpu": "yes"}}}, Node)
    world.have(NODES, "a", node, "")
    world.have(NODES, "c", msgspec.convert({"metadata": {"name": "c", "labels": {"gpu": "yes"}}}, Node), "")
    one = maintenance(series={"nodeSelector": {"matchLabels": {"gpu": "yes"}}})
    found = (await world.seen(one, labelled=1)).inputs
    assert [group.hosts for group in found.groups] == [("a",)]
    assert found.series_known
    plan = undertaking.plan_of(await world.seen(one), msgspec.convert(RUNNING, RunState), world.reader)
    assert plan is not None
    assert (plan.without_agent, plan.first_without_agent, plan.without_node) == (1, ["c"], 1)
    world.have(NODES, "a", msgspec.convert({"metadata": {"name": "a"}}, Node), "")
    found = (await world.seen(one, labelled=1)).inputs
    assert found.problem is not None
    assert (found.problem.reason, found.series_known) == (Reason.NO_HOSTS, True)
    assert "1 Kubernetes Node without an agent" in found.problem.message
    world.caches.of(NODES).refused = "forbidden"
    found = (await world.seen(one)).inputs
    assert found.problem is not None
    assert (found.problem.reason, found.series_known) == (Reason.NODE_LABELS_UNKNOWN, False)
    assert (await world.seen(maintenance())).inputs.problem is None, "who asks for no Node needs no right"


async def test_hosts_are_not_searched_again_while_none_got_other_labels() -> None:
    world, one = World(), maintenance(series={"selector": {"matchLabels": {"a": "b"}}})
    first = (await world.seen(one, host("a", a="b"), labelled=1)).inputs.groups
    other = (host("a"), host("b", a="b"))
    assert (await world.seen(one, *other, labelled=1)).inputs.groups is first
    assert [group.hosts for group in (await world.seen(one, *other, labelled=2)).inputs.groups] == [("b",)]
    assert [group.hosts for group in (await world.seen(one, host("c", a="b"))).inputs.groups] == [("c",)]
    await world.seen(one, host("a", a="b"), labelled=3)
    changed = maintenance(series={"selector": {"matchLabels": {"a": "c"}}})
    assert list((await world.seen(changed, host("a", a="b"), labelled=3)).inputs.groups) == []
    world.reader.forget(ObjectKey("ns", "monday"))
    found = (await world.seen(changed, host("z", a="c"), labelled=3)).inputs.groups
    assert [group.hosts for group in found] == [("z",)]


async def test_no_work_begins_that_the_audit_log_could_not_record() -> None:
    world = World()
    stopped = msgspec.convert({"status": {"workflows": "Stop"}}, AuditCheckpoint)
    world.have(AUDIT_CHECKPOINTS, "log", stopped)
    problem = (await world.seen(maintenance())).inputs.problem
    assert problem is not None
    assert (problem.reason, problem.object) == (Reason.AUDIT_BROKEN, "auditcheckpoint/log")
    worse = (await world.seen(maintenance(window=None))).inputs.problem
    assert worse is not None
    assert worse.reason is Reason.WINDOW_NOT_FOUND


# What is done to each host


def task(run: str = "r1", name: str = "a-0123456789", steps: Sequence[dict[str, Any]] = (STEP,)) -> NodeTask:
    meta = {"name": name, "labels": {RUN: run}, "creationTimestamp": "2026-11-16T05:00:00Z"}
    status = {"phase": "Succeeded", "finishedAt": "2026-11-16T05:30:00Z"}
    spec = {"nodeName": "a", "steps": steps}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, NodeTask)


OTHER = {"name": "old", "reboot": {}}


async def test_steps_are_fixed_when_the_first_host_begins() -> None:
    world, one = World(), maintenance(status={"run": {**RUNNING, "digest": "d"}})
    run = one.status.run
    assert run is not None
    others = [task("r0", steps=[OTHER]), task(name="a-0123456789-undo", steps=[OTHER])]
    fresh, problem = undertaking.work_of(await world.seen(one, tasks=others), run, world.reader)
    assert ([step.name for step in fresh.steps], problem) == (["patch-boot"], None)
    assert fresh.digest
    begun = [*others, task(steps=[OTHER])]
    fixed, problem = undertaking.work_of(await world.seen(one, tasks=begun), run, world.reader)
    assert ([step.name for step in fixed.steps], fixed.digest, problem) == (["old"], "d", None)


@pytest.mark.parametrize(
    ("operations", "said"),
    [
        ([], "the operations of this run are gone: abort it"),
        ([{"name": "patch", "type": "one-shot", "templateRef": {"name": "t"}}], "t"),
        ([{"name": "patch", "type": "one-shot", "templateRef": {"name": "empty"}}], "empty"),
    ],
)
async def test_a_run_whose_steps_are_gone_does_nothing(operations: list[dict[str, Any]], said: str) -> None:
    world, one = World(), maintenance(status={"run": RUNNING}, operations=operations)
    world.have(NODE_OPERATION_TEMPLATES, "empty", NodeOperationTemplate())
    seen = await world.seen(one)
    assert one.status.run is not None
    work, problem = undertaking.work_of(seen, one.status.run, world.reader)
    assert work.steps == ()
    assert problem is not None
    assert problem.reason is Reason.STEPS_INVALID
    assert said in problem.message
    about, _ = undertaking.of_run(seen, world.reader)
    assert not about.may_work
    old = PlanState(hash="old")
    known = maintenance(status={"run": RUNNING, "plan": {"hash": "old"}}, operations=operations)
    assert undertaking.plan_of(await world.seen(known), known.status.run, world.reader) == old


async def test_work_that_the_end_of_a_window_interrupts_is_taken_back_unless_it_says_otherwise() -> None:
    steps = [STEP, {**STEP, "name": "keep", "onFailure": "halt"}]
    operations = [{"name": "patch", "type": "one-shot", "steps": steps}]
    for on_close, wanted in (("abortAndUndo", ["undo", "halt"]), ("finishHost", ["", "halt"])):
        world = World()
        window = {**UNTIL_SEVEN, "onClose": on_close}
        one = maintenance(status={"run": RUNNING}, window=window, operations=operations)
        seen = await world.seen(one)
        assert one.status.run is not None
        work, _ = undertaking.work_of(seen, one.status.run, world.reader)
        assert [step.on_failure for step in work.steps] == wanted
        about, _ = undertaking.of_run(seen, world.reader)
        assert about.rules.undo_expired is (on_close == "abortAndUndo")
        claim = Claim("monday", "m-1", "h", "r1", 0, State.WORKING, NOW, NOW, NOW + 2 * HOUR)
        made = about.work(claim)
        assert made.deadline == (NOW + HOUR if on_close == "abortAndUndo" else NOW + 2 * HOUR)
        assert (made.not_after, made.plan_hash) == (NOW + HOUR, "")
        assert made.steps == work.steps


@pytest.mark.parametrize(
    ("one", "ending", "may_work"),
    [
        pytest.param(maintenance(status={"run": RUNNING}), None, True, id="under way"),
        pytest.param(
            maintenance(status={"run": RUNNING}, metadata={"annotations": {ANNOTATION_ABORT: "r1"}}),
            Reason.ABORTED, True, id="aborted",
        ),
        pytest.param(
            maintenance(status={"run": RUNNING}, metadata={"deletionTimestamp": AT}), Reason.DELETED, True,
            id="deleted",
        ),
        pytest.param(maintenance(status={"run": {**RUNNING, "replaced": True}}), None, True, id="replaced"),
        pytest.param(maintenance(), Reason.ABORTED, False, id="no run"),
        pytest.param(maintenance(metadata={"deletionTimestamp": AT}), Reason.DELETED, False, id="gone"),
        pytest.param(
            maintenance(status={"run": RUNNING}, window=FROM_EIGHT),
            None, False, id="shut",
        ),
    ],
)  # fmt: skip
async def test_which_visits_go_on(one: NodeMaintenance, ending: Reason | None, may_work: bool) -> None:
    world = World()
    about, problem = undertaking.of_run(await world.seen(one), world.reader)
    assert (about.ending, about.may_work, problem) == (ending, may_work, None)
    assert about.rules.cordons is (one.status.run is not None), "it reboots"
    assert (about.owner, about.now) == (one, NOW)


@pytest.mark.parametrize(
    ("drain", "asked_at", "grace"),
    [
        (None, NOW, None),
        ({"protectedPods": "wait", "gracePeriodSeconds": 5}, NOW, 5),
        ({"protectedPods": "evict", "podSelector": {"matchLabels": {"a": "b"}}}, None, None),
    ],
)
async def test_which_pods_leave(
    drain: dict[str, Any] | None, asked_at: datetime | None, grace: int | None
) -> None:
    world, spec = World(), {"disruption": {"drain": drain}} if drain is not None else {}
    about, _ = undertaking.of_run(
        await world.seen(maintenance(status={"run": RUNNING}, **spec)), world.reader
    )
    assert (about.drain.asked_at, about.drain.grace_period) == (asked_at, grace)
    assert (about.drain.selector is not None) is (drain is not None and "podSelector" in drain)


async def test_the_first_problem_is_told() -> None:
    world = World()
    asks = {"approval": {"required": True, "differentUser": True}}
    both = maintenance(status={"run": RUNNING}, window=None, operations=[], **asks)
    reasons = []
    for one in (
        both, maintenance(status={"run": RUNNING}, operations=[], **asks),
        maintenance(status={"run": RUNNING}, **asks),
    ):  # fmt: skip
        _, problem = undertaking.of_run(await world.seen(one), world.reader)
        assert problem is not None
        reasons.append(problem.reason)
    assert reasons == [Reason.WINDOW_NOT_FOUND, Reason.STEPS_INVALID, Reason.REQUESTER_UNKNOWN]


@pytest.mark.parametrize(
    ("approval", "missing"),
    [
        (None, False),
        ({"required": True}, False),
        ({"required": True, "differentUser": True}, True),
        ({"required": True, "differentUser": True, "requester": "jane"}, False),
        ({"required": True, "requester": "jane"}, False),
    ],
)
def test_if_somebody_else_has_to_approve_it_is_known_who_asked(
    approval: dict[str, Any] | None, missing: bool
) -> None:
    problem = undertaking.nobody_asks(maintenance(approval=approval))
    assert (problem is not None and problem.reason is Reason.REQUESTER_UNKNOWN) is missing


# Plans and approvals


async def planned(world: World, one: NodeMaintenance, *hosts: ManagedNode, **more: Any) -> PlanState:
    seen = await world.seen(one, *hosts, **more)
    found = undertaking.plan_of(seen, msgspec.convert(RUNNING, RunState), world.reader)
    assert found is not None
    return found


async def test_a_plan_names_hosts_and_times_and_keeps_those_that_were_expected_first() -> None:
    world = World()
    hosts = [host(f"h{number:02}") for number in range(30)]
    found = await planned(world, maintenance(), *hosts)
    assert (found.hosts, len(found.first), found.disruption) == (30, 20, "reboot")
    assert found.starts_at == AT
    assert found.ends_at is not None
    known = {"plan": {**msgspec.to_builtins(found), "startsAt": "2026-11-16T01:00:00Z"}}
    again = await planned(world, maintenance(status=known), *hosts)
    assert (again.starts_at, again.hash) == ("2026-11-16T01:00:00Z", found.hash)
    other = await planned(world, maintenance(status=known), *hosts[1:])
    assert (other.starts_at, other.hosts) == (AT, 29)
    assert other.hash != found.hash
    one = maintenance(status=known)
    assert undertaking.plan_of(await world.seen(one), None, world.reader) == one.status.plan
    shut = await planned(world, maintenance(window={"schedules": []}), *hosts)
    assert (shut.starts_at, shut.ends_at) == (None, None)


async def test_a_plan_takes_as_long_as_visits_took() -> None:
    world = World()
    for count, ends in ((0, "2026-11-16T06:10:00Z"), (3, "2026-11-16T06:30:00Z")):
        tasks = [task(f"r{number}") for number in range(count)]
        assert (await planned(world, maintenance(), host("a"), tasks=tasks)).ends_at == ends


ASKS = {"approval": {"required": True}}


async def test_a_plan_is_approved_as_it_is_now_and_was_shown() -> None:
    world = World()
    plan = await planned(world, maintenance(**ASKS))
    shown = {"run": RUNNING, "plan": msgspec.to_builtins(plan)}
    one = maintenance(status=shown, **ASKS)

    async def approved(this: NodeMaintenance, *hosts: ManagedNode) -> bool:
        return undertaking.is_approved(await world.seen(this, *hosts), world.caches, world.reader)

    assert await approved(maintenance(status={"run": RUNNING})), "nobody has to"
    assert await approved(maintenance(status={"run": RUNNING}, approval={"required": False}))
    assert not await approved(one)
    world.approve(plan.hash, "far", namespace="elsewhere")
    world.approve("other")
    assert not await approved(one)
    world.approve(plan.hash)
    assert await approved(one)
    assert undertaking.approvers(one, plan.hash, world.caches) == ("jo",)
    assert not await approved(one, host("a"), host("z")), "it is for other hosts now"
    assert not await approved(maintenance(status={"run": RUNNING}, **ASKS)), "nobody was shown it"
    stale = maintenance(status={"run": RUNNING, "plan": {**shown["plan"], "hash": "other"}}, **ASKS)
    assert not await approved(stale)


def test_approvals_that_do_not_count_are_told_with_the_reason() -> None:
    world = World()
    strict = {"approval": {"required": True, "differentUser": True, "requester": "jo"}}
    history = [{"id": "r0", "outcome": "Succeeded", "endedAt": AT}]
    one = maintenance(status={"history": history}, **strict)
    world.approve("now", "own")
    world.approve("now", "good", approver="ann")
    world.approve("enforced", "own-too", made="2026-11-16T06:00:01Z")
    world.approve("before", "old", made="2026-11-16T05:59:59Z")
    world.approve("changed", "late", made="2026-11-16T08:00:00Z", approver="ann")
    world.approve("changed", "other", maintenance="tuesday")
    world.approve("changed", "far", namespace="elsewhere")
    plan, enforced = PlanState(hash="now"), RealtimePlan(hash="enforced")
    found = undertaking.refused(one, plan, enforced, world.caches)
    assert [(each.name, each.approver, each.reason) for each in found] == [
        ("late", "ann", "PlanChanged"), ("own-too", "jo", "OwnRequest"), ("own", "jo", "OwnRequest"),
    ]  # fmt: skip
    first = undertaking.refused(maintenance(**strict), plan, enforced, world.caches)
    assert [each.name for each in first] == ["late", "own-too", "own", "old"]
    undated = maintenance(status={"history": [{"id": "r0", "outcome": "Failed"}]}, **strict)
    world.approve("before", "undated", made="")
    assert [each.name for each in undertaking.refused(undated, plan, enforced, world.caches)] == [
        "late", "own-too", "own", "old", "undated",
    ]  # fmt: skip
    assert undertaking.refused(one, None, None, world.caches) == []
    for lax in (maintenance(), maintenance(approval={"required": False})):
        assert undertaking.refused(lax, plan, None, world.caches) == []
    for number in range(2 * MAX_REFUSED):
        world.approve("changed", f"many{number}", made=f"2026-11-16T09:00:{number:02}Z")
    found = undertaking.refused(one, plan, enforced, world.caches)
    assert [each.name for each in found] == [
        f"many{number}" for number in range(2 * MAX_REFUSED - 1, MAX_REFUSED - 1, -1)
    ]
