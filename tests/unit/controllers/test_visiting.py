"""One step of the visit of a host: what is done to its Node and its task, what is written, and who is told.

What comes next is decided elsewhere; here its orders are carried out, against a model of the API.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_TOKEN, ANNOTATION_VISIT, NodeMaintenance
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NOT_DONE, NodeTask
from nodemanager.api.maintenance.task_steps import TaskStep
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.holding import DrainRules
from nodemanager.controllers.disruption.nodes import CORDONED
from nodemanager.controllers.node_maintenances.ahead import HostsAhead, TasksAhead
from nodemanager.controllers.node_maintenances.orders import Orders, Owner, TaskWork, task_of
from nodemanager.controllers.node_maintenances.visiting import UNDO_TIME, Undertaking, VisitDriver, Visited
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.facts import GateFinding, HostFacts, HostHealth, NodeFacts
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.states import Move, VisitHold, VisitRules
from nodemanager.kube import times
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry
from support.visited_api import VisitedApi

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TASK, UNDO = "web1-0123456789", "web1-0123456789-undo"
HOST, NODE = "managednodes/fleet/web1", "nodes/web1"
OWNER = msgspec.convert(
    {"metadata": {"name": "monday", "namespace": "fleet", "uid": "m-1", "generation": 1}}, NodeMaintenance
)
STEPS = [
    {"name": "stop", "execution": {"argv": ["off"]}, "undo": {"execution": {"argv": ["on"]}}},
    {"name": "boot", "reboot": {"when": "always"}},
]
HELD = '{"namespace":"fleet","maintenance":"monday","uid":"m-1"}'


def claim(state: State, **changes: Any) -> Claim:
    made = Claim(
        maintenance="monday", uid="m-1", host_uid="uid-web1", run="r1", attempt=0, state=state,
        since=NOW - MINUTE, begun=NOW - 5 * MINUTE, expires=NOW + 60 * MINUTE, task=TASK, boot_id="one",
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def task(name: str = TASK, **status: Any) -> dict[str, Any]:
    """Return a task as the API has it."""
    return {
        "metadata": {"name": name, "labels": {}, "creationTimestamp": times.rfc3339(NOW - 2 * MINUTE)},
        "spec": {"nodeName": "web1", "steps": STEPS},
        "status": status,
    }


class Site:
    """A namespace with one host, and the driver of its visits."""

    def __init__(self) -> None:
        self.api = VisitedApi()
        self.api.put(HOST)
        client = Client(self.api)
        orders = Orders(
            client, HostsAhead(Cache(client, MANAGED_NODES)), TasksAhead(Cache(client, NODE_TASKS))
        )
        self.metrics = Registry()
        self._events = EventRecorder(client, "test", now=lambda: NOW)
        self.driver = VisitDriver(orders, self._events, self.metrics)

    def node(self, *, cordoned: bool = False, ours: bool = False, **status: Any) -> None:
        notes = {CORDONED: HELD} if ours else {}
        meta = {"annotations": notes}
        self.api.put(NODE, metadata=meta, spec={"unschedulable": True} if cordoned else {}, status=status)

    def pod(self, name: str) -> None:
        owners = [
            {"controller": True, "kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "x", "uid": "x"}
        ]
        self.api.put(f"pods/shop/{name}", metadata={"ownerReferences": owners}, spec={"nodeName": "web1"})

    def have(self, said: dict[str, Any]) -> None:
        meta = {"uid": f"uid-{said['metadata']['name']}", **said["metadata"]}
        self.api.put(f"nodetasks/fleet/{said['metadata']['name']}", **{**said, "metadata": meta})

    def host(self) -> ManagedNode:
        return msgspec.convert(self.api.objects[HOST], ManagedNode)

    def known(self, name: str = TASK) -> NodeTask:
        return msgspec.convert(self.api.objects[f"nodetasks/fleet/{name}"], NodeTask)

    def claimed(self) -> Claim:
        found = claims.decode(self.host().metadata.annotations.get(ANNOTATION_VISIT))
        assert isinstance(found, Claim)
        return found

    async def drive(
        self, now: Claim, *, facts: HostFacts | None = None, cached: bool = True, owner: Owner = OWNER,
        rules: VisitRules | None = None, **about: Any,
    ) -> VisitHold | Move:  # fmt: skip
        """Drive one step of a visit; `cached` = the operator knows the tasks that there are."""
        if ANNOTATION_VISIT not in self.api.objects[HOST]["metadata"].get("annotations", {}):
            self.api.put(
                HOST,
                metadata={
                    "annotations": {
                        ANNOTATION_VISIT: claims.encode(now),
                        ANNOTATION_TOKEN: f"7 {task_of(now)}",
                    }
                },
            )
        health = HostHealth(boot_id="two", heard=NOW)
        host = facts or HostFacts("web1", "uid-web1", NOW - 60 * MINUTE, health=health)
        tasks = [
            msgspec.convert(one, NodeTask)
            for path, one in self.api.objects.items() if cached and path.startswith("nodetasks/")
        ]  # fmt: skip
        work = TaskWork(tuple(msgspec.convert(STEPS, list[TaskStep])), NOW + 30 * MINUTE, "hash")
        undertaken = Undertaking(
            owner, rules or VisitRules(cordons=True, drains=True, can_undo=True), lambda _: work,
            DrainRules(), NOW, **about,
        )  # fmt: skip
        self.api.asked.clear()
        return await self.driver.drive(undertaken, Visited(self.host(), host, now, tasks))

    async def told(self) -> list[tuple[str, str]]:
        """Return the Events up to now."""
        sending = asyncio.create_task(self._events.run())
        await asyncio.sleep(0)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
        return self.api.events()

    async def drains(self) -> dict[str, int]:
        """Return how often people were told of pods that are left."""
        await self.told()
        found = [one for path, one in self.api.objects.items() if path.startswith("events/")]
        return {one["message"]: one["count"] for one in found if one["reason"] == "MaintenanceDraining"}


def with_node(**changes: Any) -> HostFacts:
    """Return a host with a Node, as the cache of the operator has it."""
    return HostFacts("web1", "uid-web1", NOW - 60 * MINUTE, health=HostHealth(boot_id="two", heard=NOW),
                     node=NodeFacts(**changes))  # fmt: skip


# Its Node


async def test_its_node_is_cordoned_and_what_is_so_now_counts_and_not_what_the_cache_has() -> None:
    site = Site()
    site.node()
    found = await site.drive(claim(State.CORDONING, cordoned=True), facts=with_node())
    assert isinstance(found, Move)
    assert found.claim.state is State.DRAINING
    assert site.api.objects[NODE]["spec"]["unschedulable"]
    assert site.api.writes == [f"PATCH {NODE}", f"PATCH {HOST}"]
    assert site.claimed() == found.claim


async def test_a_node_that_is_gone_is_not_waited_for() -> None:
    site = Site()
    found = await site.drive(claim(State.CORDONING, cordoned=True), facts=with_node())
    assert isinstance(found, Move)
    assert found.claim.state is State.WORKING


async def test_a_node_that_others_cordoned_is_left_alone() -> None:
    site = Site()
    site.node(cordoned=True)
    found = await site.drive(claim(State.DRAINING), facts=with_node(cordoned=True))
    assert isinstance(found, Move)
    assert found.claim.state is State.WORKING
    assert site.api.writes == [f"PATCH {HOST}"]


async def test_it_is_drained_and_people_are_told_of_pods_that_are_left_once() -> None:
    site = Site()
    site.node(cordoned=True, ours=True)
    site.pod("a")
    site.pod("b")
    site.api.stuck = {"a": "one is needed"}
    draining = claim(State.DRAINING, cordoned=True)
    for left in (2, 1, 1):
        found = await site.drive(draining, facts=with_node(cordoned=True))
        assert isinstance(found, VisitHold)
        assert found.reason is Reason.DRAINING
        assert found.object.startswith("shop/a: one is needed")
        assert ("shop/b" in found.object) is (left == 2)
    assert site.api.conditions("web1") == {"DrainInProgress": "fleet/monday: pods are leaving"}
    one, two = "1 pod is left: shop/a: one is needed", "2 pods are left: shop/a: one is needed; shop/b: it is"
    assert [said.startswith(text) for said, text in zip(await site.drains(), (two, one), strict=True)] == [
        True
    ] * 2
    site.api.stuck.clear()
    await site.drive(draining, facts=with_node(cordoned=True))
    found = await site.drive(draining, facts=with_node(cordoned=True))
    assert isinstance(found, Move)
    assert found.claim.state is State.WORKING
    going = "1 pod is left: shop/a: it is still terminating"
    assert (await site.drains())[going] == 1
    site.pod("a")
    await site.drive(draining, facts=with_node(cordoned=True))
    assert (await site.drains())[going] == 2, "it is drained anew"


async def test_it_is_given_back() -> None:
    site = Site()
    site.node(cordoned=True, ours=True)
    returning = claim(State.RETURNING, cordoned=True, end=State.DONE, reason=Reason.SUCCEEDED)
    found = await site.drive(returning, facts=with_node(cordoned=True, ours=True))
    assert isinstance(found, Move)
    assert found.claim.state is State.DONE
    assert "unschedulable" not in site.api.objects[NODE]["spec"]
    assert CORDONED not in site.api.objects[NODE]["metadata"]["annotations"]


async def test_a_node_that_somebody_else_keeps_cordoned_is_given_back_as_it_is() -> None:
    """Somebody took our mark away, and not the cordon."""
    site = Site()
    site.node(cordoned=True)
    returning = claim(State.RETURNING, cordoned=True, end=State.DONE, reason=Reason.SUCCEEDED)
    found = await site.drive(returning, facts=with_node(cordoned=True, ours=True))
    assert isinstance(found, Move)
    assert found.claim.state is State.DONE
    assert site.api.objects[NODE]["spec"]["unschedulable"]


async def test_a_node_is_not_cordoned_again_while_its_host_is_at_work() -> None:
    site = Site()
    site.node()
    site.have(task(phase="Running"))
    found = await site.drive(claim(State.WORKING, cordoned=True, seen=True), facts=with_node())
    assert isinstance(found, VisitHold)
    assert site.api.asked == []


async def test_work_on_a_held_node_is_announced_until_its_task_is_seen() -> None:
    site = Site()
    site.node(cordoned=True, ours=True)
    for seen, ready in ((False, True), (True, False)):
        site.api.objects[NODE]["status"] = {}
        await site.drive(claim(State.WORKING, cordoned=True, seen=seen), facts=with_node(cordoned=True))
        said = {"Drained": "fleet/monday", "MaintenanceInProgress": f"fleet/monday: task {TASK}"}
        assert site.api.conditions("web1") == (said if ready else {})
    await site.drive(claim(State.WORKING), facts=with_node(cordoned=True))
    assert site.api.conditions("web1") == {}, "we did not cordon it"


@pytest.mark.parametrize(
    ("expires", "wanted"),
    [
        (NOW + MINUTE, VisitHold(Reason.CORDONING, "node/web1")),
        (NOW, State.HALTED),
    ],
)
async def test_without_the_right_to_its_node_it_waits_until_its_time_is_up(
    expires: datetime, wanted: VisitHold | State
) -> None:
    site = Site()
    site.node()
    site.api.refused = {"GET nodes": 403}
    found = await site.drive(claim(State.CORDONING, cordoned=True, expires=expires), facts=with_node())
    if isinstance(found, VisitHold):
        assert found == wanted
        assert site.api.writes == []
        return
    ended = found.claim
    assert (ended.state, ended.reason, ended.since) == (wanted, Reason.DEADLINE_EXCEEDED, NOW)
    assert site.claimed() == ended
    assert [reason for reason, _ in await site.told()] == ["MaintenanceHalted"]


# Its task


async def test_a_task_is_made_once_for_the_work() -> None:
    site = Site()
    found = await site.drive(claim(State.WORKING))
    assert isinstance(found, Move)
    assert found.claim == claim(State.WORKING, seen=True)
    made = site.api.objects[f"nodetasks/fleet/{TASK}"]["spec"]
    assert (made["nodeName"], made["fencingToken"], made["reason"]["uid"]) == ("web1", 7, "m-1")
    assert (made["deadline"], made["reason"]["planHash"]) == ("2026-11-16T06:30:00Z", "hash")
    assert [step["name"] for step in made["steps"]] == ["stop", "boot"]
    assert await site.told() == [], "the state is the same"
    for cached in (True, False):
        found = await site.drive(found.claim, cached=cached)
        assert isinstance(found, VisitHold) or found.claim.seen
        found = Move(claim(State.WORKING))
        found = await site.drive(found.claim, cached=cached)
        assert isinstance(found, Move)
        assert not any(one.startswith("POST") for one in site.api.asked)
        assert (f"GET nodetasks/fleet/{TASK}" in site.api.asked) is not cached


@pytest.mark.parametrize(
    ("now", "about", "state", "reason"),
    [
        pytest.param(
            claim(State.WORKING, seen=True), {}, State.HALTED, Reason.TASK_LOST, id="it was deleted"
        ),
        pytest.param(
            claim(State.WORKING), {"may_work": False}, State.UNDONE, Reason.TIME_TOO_SHORT, id="too late"
        ),
        pytest.param(
            claim(State.WORKING), {"ending": Reason.ABORTED}, State.UNDONE, Reason.ABORTED, id="aborted"
        ),
        pytest.param(
            claim(State.DRAINING),
            {"ending": Reason.DELETED},
            State.UNDONE,
            Reason.DELETED,
            id="before its work",
        ),
        pytest.param(
            claim(State.CORDONING), {"ending": Reason.DELETED}, State.UNDONE, Reason.DELETED, id="at first"
        ),
    ],
)
async def test_no_task_is_made_when_there_is_nothing_to_do(
    now: Claim, about: dict[str, Any], state: State, reason: Reason
) -> None:
    site = Site()
    found = await site.drive(now, facts=with_node(), **about)
    assert isinstance(found, Move)
    assert (found.claim.state, found.claim.end, found.claim.reason) == (State.RETURNING, state, reason)
    assert found.claim.since == NOW
    assert site.api.writes == [f"PATCH {HOST}"]


async def test_a_task_that_the_api_refuses_counts_as_refused_by_the_host() -> None:
    site = Site()
    site.api.refused = {"POST nodetasks": 422}
    found = await site.drive(claim(State.WORKING))
    assert isinstance(found, Move)
    assert (found.claim.end, found.claim.reason) == (State.UNDONE, Reason.TASK_REFUSED)


async def test_of_a_host_that_is_not_at_work_yet_no_task_is_asked_for() -> None:
    site = Site()
    await site.drive(claim(State.DRAINING), facts=with_node(pods=1), cached=False)
    assert site.api.asked == []
    nameless = await site.drive(claim(State.PROVING, task=""), cached=False)
    assert isinstance(nameless, Move)
    assert site.api.asked == [f"PATCH {HOST}"]


@pytest.mark.parametrize(
    ("state", "ending", "said", "stays"),
    [
        pytest.param(State.RETURNING, None, {}, False, id="given back"),
        pytest.param(State.RETURNING, None, {"phase": "Pending"}, False, id="given back, and pending"),
        pytest.param(State.RETURNING, None, {"claim": {}}, True, id="given back, and taken"),
        pytest.param(State.RETURNING, None, {"phase": "Failed"}, True, id="given back, and ended"),
        pytest.param(State.WORKING, None, {}, True, id="at work"),
        pytest.param(State.WORKING, Reason.ABORTED, {}, False, id="aborted"),
        pytest.param(State.WORKING, Reason.ABORTED, {"claim": {}, "phase": "Running"}, True, id="too late"),
        pytest.param(State.PROVING, Reason.ABORTED, {}, True, id="its work is done"),
    ],
)
async def test_a_task_that_nobody_took_is_taken_back(
    state: State, ending: Reason | None, said: dict[str, Any], stays: bool
) -> None:
    site = Site()
    site.have(task(**said))
    found = await site.drive(claim(state, seen=True, end=State.UNDONE), ending=ending)
    assert (f"nodetasks/fleet/{TASK}" in site.api.objects) is stays
    if state is State.WORKING:
        given_back = isinstance(found, Move) and found.claim.reason is Reason.ABORTED
        assert given_back is not stays


async def test_a_host_whose_work_is_done_is_proven_also_when_its_task_is_gone() -> None:
    site = Site()
    found = await site.drive(claim(State.PROVING, seen=True), ending=Reason.ABORTED)
    assert isinstance(found, Move)
    assert found.claim.state is State.DONE


CHANGED = [{"name": "stop", "changed": True}]


async def test_what_cannot_be_proven_is_taken_back_by_a_task_of_its_own() -> None:
    site = Site()
    site.have(task(phase="Succeeded", steps=CHANGED))
    undoing = claim(State.UNDOING, seen=True, reason=Reason.NOT_PROVEN)
    for _ in range(2):
        found = await site.drive(undoing)
        assert isinstance(found, VisitHold)
        assert found.object == f"nodetask/{UNDO}"
    made = site.api.objects[f"nodetasks/fleet/{UNDO}"]["spec"]
    assert [(step["name"], step["execution"]["argv"]) for step in made["steps"]] == [("stop", ["on"])]
    assert made["deadline"] == times.rfc3339(NOW - MINUTE + UNDO_TIME)
    assert site.api.asked == [], "it is known by now"
    site.api.objects[f"nodetasks/fleet/{UNDO}"]["status"] = {"phase": "Succeeded"}
    found = await site.drive(undoing)
    assert isinstance(found, Move)
    assert (found.claim.state, found.claim.end) == (State.RETURNING, State.UNDONE)
    assert f"nodetasks/fleet/{TASK}" in site.api.objects


async def test_what_changed_nothing_needs_not_be_taken_back() -> None:
    site = Site()
    site.have(task(phase="Succeeded"))
    found = await site.drive(claim(State.UNDOING, seen=True, reason=Reason.NOT_PROVEN))
    assert isinstance(found, Move)
    assert (found.claim.state, found.claim.end) == (State.RETURNING, State.UNDONE)
    assert site.api.writes == [f"PATCH {HOST}"]


@pytest.mark.parametrize("refused", [{"POST nodetasks": 422}, {"POST nodetasks": 409}])
async def test_what_cannot_be_taken_back_is_left_to_a_person(refused: dict[str, int]) -> None:
    """The API refuses the task, or has one of that name which is gone when it is asked for."""
    site = Site()
    site.have(task(phase="Succeeded", steps=CHANGED))
    site.api.refused = refused
    found = await site.drive(claim(State.UNDOING, seen=True, reason=Reason.NOT_PROVEN))
    assert isinstance(found, Move)
    assert (found.claim.state, found.claim.reason) == (State.HALTED, Reason.TASK_HALTED)


async def test_without_the_task_nobody_knows_what_to_take_back() -> None:
    site = Site()
    found = await site.drive(claim(State.UNDOING, seen=True))
    assert isinstance(found, VisitHold)
    assert site.api.writes == []


# Its proof


BOOTED = [{"name": "boot", "evidence": {"bootBefore": "one", "bootAfter": "two"}}]


@pytest.mark.parametrize(
    ("steps", "failing", "missing"),
    [
        pytest.param([], "", f"nodetask/{TASK}: no other boot proves step boot", id="no boot"),
        pytest.param(BOOTED, "", "", id="another boot"),
        pytest.param(BOOTED, "shop: no", "shop: no", id="a gate says no"),
        pytest.param([], "shop: no", f"nodetask/{TASK}: no other boot proves step boot", id="neither"),
    ],
)
@pytest.mark.parametrize("state", [State.PROVING, State.SOAKING])
async def test_a_reboot_that_had_to_happen_is_part_of_the_proof(
    state: State, steps: list[dict[str, Any]], failing: str, missing: str
) -> None:
    site = Site()
    site.have(task(phase="Succeeded", steps=steps))
    health = HostHealth(boot_id="two", heard=NOW, failing_after=GateFinding(failing) if failing else None)
    facts = HostFacts("web1", "uid-web1", NOW - 60 * MINUTE, health=health)
    rules = VisitRules(soak=MINUTE / 2 if state is State.SOAKING else timedelta())
    found = await site.drive(claim(state, seen=True), facts=facts, rules=rules)
    if state is State.PROVING and missing:
        assert isinstance(found, VisitHold)
        assert found.object == missing
    else:
        assert isinstance(found, Move)
        assert found.claim.state is (State.PROVING if missing else State.DONE)


async def test_a_gate_that_says_no_counts_also_when_the_task_is_gone() -> None:
    site = Site()
    health = HostHealth(boot_id="two", heard=NOW, failing_after=GateFinding("shop: no"))
    facts = HostFacts("web1", "uid-web1", NOW - 60 * MINUTE, health=health)
    found = await site.drive(claim(State.PROVING, seen=True), facts=facts)
    assert isinstance(found, VisitHold)
    assert found.object == "shop: no"


@pytest.mark.parametrize(
    ("now", "phase", "noted"),
    [
        pytest.param(
            claim(State.RETURNING, end=State.UNDONE, reason=Reason.NOT_PROVEN),
            "Succeeded",
            "NotProven",
            id="undone",
        ),
        pytest.param(
            claim(State.RETURNING, end=State.HALTED, reason=Reason.NOT_PROVEN),
            "Succeeded",
            "NotProven",
            id="halted",
        ),
        pytest.param(
            claim(State.RETURNING, end=State.UNDONE, reason=Reason.TASK_FAILED),
            "Failed",
            None,
            id="it failed itself",
        ),
        pytest.param(claim(State.RETURNING, end=State.UNDONE), "Succeeded", None, id="nobody knows why"),
        pytest.param(
            claim(State.RETURNING, end=State.DONE, reason=Reason.SUCCEEDED), "Succeeded", None, id="done"
        ),
        pytest.param(claim(State.WORKING, seen=True), "Succeeded", None, id="not at its end"),
    ],
)
async def test_a_task_that_succeeded_says_why_its_host_is_not_done(
    now: Claim, phase: str, noted: str | None
) -> None:
    site = Site()
    site.have(task(phase=phase))
    site.have(task("web1-other", phase="Succeeded"))
    found = await site.drive(now)
    assert isinstance(found, Move)
    assert site.known().metadata.annotations.get(NOT_DONE) == noted
    assert NOT_DONE not in site.known("web1-other").metadata.annotations
    if noted:
        assert site.api.writes == [f"PATCH nodetasks/fleet/{TASK}", f"PATCH {HOST}"], (
            "before the claim says so"
        )


async def test_without_its_task_nothing_is_noted() -> None:
    site = Site()
    found = await site.drive(claim(State.RETURNING, end=State.UNDONE, reason=Reason.NOT_PROVEN))
    assert isinstance(found, Move)
    assert site.api.writes == [f"PATCH {HOST}"]


# Who is told

CORDON_STAYS = "; its Node stays cordoned: see how it is, then `kubectl uncordon web1`"


@pytest.mark.parametrize(
    ("now", "reason", "said"),
    [
        (claim(State.CORDONING), "MaintenanceCordoning", "Cordoning for maintenance monday, run r1"),
        (claim(State.DRAINING), "", ""),
        (claim(State.WORKING), "MaintenanceWorking", "Working for maintenance monday, run r1"),
        (claim(State.REBOOTING), "", ""),
        (claim(State.PROVING), "", ""),
        (claim(State.RETURNING, end=State.UNDONE, reason=Reason.NOT_PROVEN), "", ""),
        (claim(State.DONE, reason=Reason.SUCCEEDED), "MaintenanceDone",
         "Done for maintenance monday, run r1: Succeeded"),
        (claim(State.UNDOING, reason=Reason.NOT_PROVEN, missing="node/web1: not Ready"), "MaintenanceUndoing",
         "Undoing for maintenance monday, run r1: NotProven: node/web1: not Ready"),
        (claim(State.UNDONE), "MaintenanceUndone", "Undone for maintenance monday, run r1"),
        (claim(State.HALTED, cordoned=True), "MaintenanceHalted", "Halted for maintenance monday, run r1"),
        (claim(State.HALTED, maintenance="managednode/web1"), "MaintenanceHalted",
         "Halted for its spec.upgrade, run r1"),
        (claim(State.HALTED, maintenance="managednode/web1", cordoned=True), "MaintenanceHalted",
         f"Halted for its spec.upgrade, run r1{CORDON_STAYS}"),
        (claim(State.DONE, maintenance="managednode/web1", cordoned=True), "MaintenanceDone",
         "Done for its spec.upgrade, run r1"),
    ],
)  # fmt: skip
async def test_people_are_told_of_the_states_that_matter(now: Claim, reason: str, said: str) -> None:
    site = Site()
    about = Undertaking(OWNER, VisitRules(), lambda _: TaskWork((), NOW), DrainRules(), NOW)
    await site.driver.write(about, site.host(), now)
    assert site.claimed() == now
    assert await site.told() == ([(reason, said)] if reason else [])
    kinds = [one["type"] for path, one in site.api.objects.items() if path.startswith("events/")]
    bad = now.state in (State.UNDOING, State.UNDONE, State.HALTED)
    assert kinds == (["Warning" if bad else "Normal"] if reason else [])
    line = f'nodemanager_maintenance_transitions_total{{state="{now.state}"}} 1'
    assert line in site.metrics.render()
    await site.driver.write(about, site.host(), msgspec.structs.replace(now, seen=True), now)
    assert site.claimed().seen
    assert line in site.metrics.render(), "it is the same state"
