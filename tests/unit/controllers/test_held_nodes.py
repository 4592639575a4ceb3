"""Nodes that nobody holds any more are given back, and those whose turn comes are announced."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT, NODE_MAINTENANCES, NodeMaintenance
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption import forgotten, planned
from nodemanager.controllers.disruption.forgotten import ForgottenCordons
from nodemanager.controllers.disruption.nodes import CORDONED, NODES, Node
from nodemanager.controllers.disruption.planned import PlannedMaintenance
from nodemanager.controllers.registration import THE_ONE, Caches, Wake
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change
from support.visited_api import VisitedApi

HELD = '{"namespace":"fleet","maintenance":"monday","uid":"m-1"}'
NOBODY = Caches("test", {})
KEY = ObjectKey("fleet", "web1")
VISIT = {
    "maintenance": "monday", "uid": "m-1", "hostUid": "h", "run": "r", "attempt": 0, "state": "Working",
    "since": "2026-11-16T06:00:00Z", "begun": "2026-11-16T06:00:00Z", "expires": "2026-11-16T07:00:00Z",
}  # fmt: skip


def host(**visit: str) -> dict[str, Any]:
    """Return a host as the API has it, with a visit if something is said of it."""
    notes = {ANNOTATION_VISIT: msgspec.json.encode({**VISIT, **visit}).decode()} if visit else {}
    return {"metadata": {"name": "web1", "namespace": "fleet", "annotations": notes}}


def node(mark: str = "", name: str = "web1", **said: str) -> dict[str, Any]:
    """Return a Node; `said` is an announcement."""
    notes = {CORDONED: mark} if mark else {}
    told = [{"type": "MaintenancePlanned", "status": "True", **said}] if said else []
    return {
        "metadata": {"name": name, "annotations": notes}, "spec": {"unschedulable": True},
        "status": {"conditions": told},
    }  # fmt: skip


class World:
    """A cluster, and the caches of an operator, which may show something else."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.api = VisitedApi()
        client = Client(self.api)
        self.nodes, self.hosts = Cache(client, NODES), Cache(client, MANAGED_NODES)
        self.maintenances = Cache(client, NODE_MAINTENANCES)
        self.forgotten = ForgottenCordons(client, self.nodes, self.hosts)
        self.planned = PlannedMaintenance(client, self.nodes, self.maintenances)
        for one in nodes:
            self.api.put(f"nodes/{one['metadata']['name']}", **one)
            self.show()

    def show(self) -> None:
        """Have the cache of Nodes show what there is."""
        for path, one in self.api.objects.items():
            if path.startswith("nodes/"):
                found = msgspec.convert(one, Node)
                self.nodes._put(key_of(found), found)

    def is_cordoned(self) -> bool:
        return "unschedulable" in self.api.objects["nodes/web1"]["spec"]


# What is forgotten


@pytest.mark.parametrize(
    ("mark", "cached", "there", "stays"),
    [
        pytest.param(HELD, None, None, False, id="the host is gone"),
        pytest.param(HELD, host(), host(), False, id="the host is not visited"),
        pytest.param(HELD, host(uid="m-2"), host(uid="m-2"), False, id="visited for something else"),
        pytest.param(HELD, host(state="Working"), host(state="Working"), True, id="visited"),
        pytest.param(HELD, None, host(state="Working"), True, id="the cache does not show it yet"),
        pytest.param(HELD, host(), host(state="Working"), True, id="the cache does not show the visit yet"),
        pytest.param("", None, None, True, id="cordoned by others"),
        pytest.param("?", None, None, True, id="somebody else's mark"),
    ],
)
async def test_a_cordon_that_no_visit_explains_is_taken_back(
    mark: str, cached: dict[str, Any] | None, there: dict[str, Any] | None, stays: bool
) -> None:
    world = World(node(mark))
    if cached is not None:
        world.hosts._put(KEY, msgspec.convert(cached, ManagedNode))
    if there is not None:
        world.api.put("managednodes/fleet/web1", **there)
    await world.forgotten.reconcile(THE_ONE)
    assert world.is_cordoned() is stays


async def test_one_that_cannot_be_asked_about_does_not_keep_others_from_being_given_back() -> None:
    far = HELD.replace("fleet", "elsewhere")
    world = World(node(far, "away"), node("?", "other"), node(HELD))
    world.api.refused = {"GET managednodes/elsewhere": 403}
    await world.forgotten.reconcile(THE_ONE)
    assert "unschedulable" in world.api.objects["nodes/away"]["spec"]
    assert not world.is_cordoned()


async def test_what_is_known_of_nodes_that_cannot_be_read_any_more_is_nothing() -> None:
    world = World(node(HELD, reason="NodeMaintenance", message="fleet/monday: it comes next"))
    world.nodes.refused = "forbidden"
    await world.forgotten.reconcile(THE_ONE)
    await world.planned.reconcile(THE_ONE)
    assert world.api.asked == []


def read_node(one: dict[str, Any] | None) -> Node | None:
    return msgspec.convert(one, Node) if one is not None else None


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, node(HELD), True),
        (None, node(), False),
        (node(), node(HELD), True),
        (node("?"), node(HELD), True),
        (node(HELD), node(HELD), False),
        (node(HELD), node(), False),
        (node(HELD), None, False),
    ],
)
def test_cordons_are_looked_at_when_one_is_marked(
    old: dict[str, Any] | None, new: dict[str, Any] | None, wakes: bool
) -> None:
    change = Change(ObjectKey("", "web1"), read_node(old), read_node(new))
    found = list(forgotten.on_node(change, NOBODY))
    assert found == ([Wake(THE_ONE, forgotten.SETTLE_SECONDS)] if wakes else [])


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (host(state="Working"), host(), True),
        (host(state="Working"), None, True),
        (host(state="Working"), host(state="Done"), True),
        (host(state="Working"), host(uid="m-2"), True),
        (host(state="Working"), host(state="Proving"), False),
        (host(), host(state="Working"), False),
        (host(), None, False),
        (None, host(state="Working"), False),
    ],
)
def test_cordons_are_looked_at_when_a_visit_has_ended(
    old: dict[str, Any] | None, new: dict[str, Any] | None, wakes: bool
) -> None:
    before, after = (None if one is None else msgspec.convert(one, ManagedNode) for one in (old, new))
    found = list(forgotten.on_host(Change(KEY, before, after), NOBODY))
    assert found == ([Wake(THE_ONE, forgotten.SETTLE_SECONDS)] if wakes else [])


# What is planned


def maintenance(
    *coming: str, name: str = "monday", run: bool = True, deleted: bool = False, plan: str = "",
    disruption: dict[str, Any] | None = None,
) -> NodeMaintenance:  # fmt: skip
    meta = {"name": name, "namespace": "fleet", "uid": f"uid-{name}"}
    gone = {"deletionTimestamp": "2026-11-16T06:00:00Z"} if deleted else {}
    status = {
        "nextHosts": coming, "run": {"id": "r"} if run else None,
        "plan": {"disruption": plan} if plan else None,
    }  # fmt: skip
    spec = {"disruption": disruption} if disruption is not None else {}
    return msgspec.convert({"metadata": {**meta, **gone}, "spec": spec, "status": status}, NodeMaintenance)


OURS = {"reason": "NodeMaintenance", "message": "fleet/monday: it comes next"}
CORDONS = {"cordon": True}


@pytest.mark.parametrize(
    ("one", "is_said"),
    [
        pytest.param(maintenance("web1", disruption=CORDONS), True, id="comes next"),
        pytest.param(maintenance("web1", plan="reboot"), True, id="comes next, and may reboot"),
        pytest.param(maintenance("web1", plan="restart"), False, id="needs no cordon"),
        pytest.param(maintenance("web1"), False, id="nobody knows what it does"),
        pytest.param(maintenance("web2", disruption=CORDONS), False, id="another host"),
        pytest.param(maintenance("web1", disruption=CORDONS, run=False), False, id="no run"),
        pytest.param(maintenance("web1", disruption=CORDONS, deleted=True), False, id="deleted"),
    ],
)
async def test_a_node_is_told_when_its_host_comes_next_and_when_it_does_not(
    one: NodeMaintenance, is_said: bool
) -> None:
    for before in ({}, OURS):
        world = World(node(**before))
        world.maintenances._put(key_of(one), one)
        await world.planned.reconcile(THE_ONE)
        wanted = {"MaintenancePlanned": "fleet/monday: it comes next"} if is_said else {}
        assert world.api.conditions("web1") == wanted
        assert len(world.api.writes) == (bool(before) is not is_said)
        world.show()
        world.api.asked.clear()
        await world.planned.reconcile(THE_ONE)
        assert world.api.asked == []


async def test_the_first_of_two_that_plan_something_is_named() -> None:
    world = World(node())
    for name in ("a", "b"):
        one = maintenance("web1", name=name, disruption=CORDONS)
        world.maintenances._put(key_of(one), one)
    await world.planned.reconcile(THE_ONE)
    assert world.api.conditions("web1") == {"MaintenancePlanned": "fleet/a: it comes next"}


@pytest.mark.parametrize("wanted", [True, False])
async def test_what_others_announced_stays(wanted: bool) -> None:
    theirs = {"reason": "Vendor", "message": "on Friday"}
    world = World(node(**theirs))
    one = maintenance("web1", disruption=CORDONS) if wanted else maintenance()
    world.maintenances._put(key_of(one), one)
    await world.planned.reconcile(THE_ONE)
    assert world.api.asked == []


@pytest.mark.parametrize(
    ("there", "code", "stays"),
    [
        pytest.param(False, None, False, id="its maintenance is gone"),
        pytest.param(True, None, True, id="the cache does not show it yet"),
        pytest.param(False, 403, True, id="it is of a namespace that is not ours"),
    ],
)
async def test_an_announcement_is_taken_back_by_who_knows_that_it_is_over(
    there: bool, code: int | None, stays: bool
) -> None:
    world = World(node(**OURS))
    if there:
        world.api.put("nodemaintenances/fleet/monday")
    world.api.refused = {"GET nodemaintenances": code} if code is not None else {}
    await world.planned.reconcile(THE_ONE)
    assert bool(world.api.conditions("web1")) is stays


@pytest.mark.parametrize("code", [403, 404])
async def test_without_the_right_to_announce_it_nothing_else_suffers(code: int) -> None:
    world = World(node(), node(name="web2"))
    one = maintenance("web1", "web2", disruption=CORDONS)
    world.maintenances._put(key_of(one), one)
    world.api.refused = {"PATCH nodes": code}
    await world.planned.reconcile(THE_ONE)
    assert len(world.api.asked) == 2


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, maintenance("web1"), True),
        (maintenance("web1"), maintenance("web1"), False),
        (maintenance("web1"), maintenance("web2"), True),
        (maintenance("web1"), maintenance(), True),
        (maintenance("web1"), maintenance("web1", run=False), True),
        (maintenance("web1"), maintenance("web1", deleted=True), True),
        (maintenance("web1"), None, True),
        (maintenance(), None, False),
        (None, maintenance("web1", run=False), False),
    ],
)
def test_announcements_are_looked_at_when_other_hosts_come_next(
    old: NodeMaintenance | None, new: NodeMaintenance | None, wakes: bool
) -> None:
    found = list(planned.on_maintenance(Change(ObjectKey("fleet", "monday"), old, new), NOBODY))
    assert found == ([Wake(THE_ONE)] if wakes else [])


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, node(), False),
        (None, node(**OURS), True),
        (node(**OURS), node(**OURS), False),
        (node(**OURS), node(), True),
        (node(**OURS), None, True),
        (node(), node(reason="Vendor", message="on Friday"), False),
    ],
)
def test_announcements_are_looked_at_when_somebody_changes_one(
    old: dict[str, Any] | None, new: dict[str, Any] | None, wakes: bool
) -> None:
    change = Change(ObjectKey("", "web1"), read_node(old), read_node(new))
    found = list(planned.on_node(change, NOBODY))
    assert found == ([Wake(THE_ONE, forgotten.SETTLE_SECONDS)] if wakes else [])
