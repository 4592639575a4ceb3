"""What is shown of a node beside its life: pools, taints, its task; what is not known is not shown."""

from __future__ import annotations

import msgspec
import pytest

from nodemanager.api.edge.edgecluster import EdgeCluster, EdgeClusterSpec, EdgeClusterStatus, EdgeNode
from nodemanager.api.edge.node_reports import MAX_TAINTS, NodePool, NodeWork, ToldNode
from nodemanager.api.maintenance.nodetask import NodeTask, NodeTaskSpec, NodeTaskStatus
from nodemanager.fleet.edge import deciding, findings, node_details
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import Read
from nodemanager.fleet.edge.node_details import SeenNode
from nodemanager.fleet.edge.parts import PartFacts, SitePartFacts
from nodemanager.fleet.edge.storage.facts import StorageFacts, StorageNode, StoragePool
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectMeta
from support import edge_profiles, edge_reports
from support.edge_reports import SILENT, ToldHost
from support.edge_world import START

PROFILE = edge_profiles.typed(edge_profiles.shipped("vx-rail", "", {"bridge": None}))
POOL = StoragePool("edge-pool", "a", 40, 100)
CORDONED = SeenNode(taints=["node.kubernetes.io/unschedulable:NoSchedule"], unschedulable=True)


def look(
    hosts: dict[str, ToldHost],
    storage: PartFacts | None = None,
    kubernetes: dict[str, SeenNode] | None = None,
) -> EdgeClusterStatus:
    status = edge_reports.watched(hosts, START)
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=status)
    agents = edge_reports.agents(hosts)
    site = Site(cluster, PROFILE, agents, parts=SitePartFacts(storage), kubernetes=kubernetes)
    return deciding.decide(site, START)


def told(*pools: StoragePool, away: str = "") -> PartFacts:
    nodes = tuple(StorageNode(name, name != away, "OFFLINE") for name in "ab")
    return PartFacts("LINSTOR", storage=StorageFacts(nodes, pools=pools))


def pools(status: EdgeClusterStatus) -> dict[str, list[NodePool]]:
    return {one.name: one.pools for one in status.nodes}


def test_a_node_has_the_pools_that_the_storage_tells_of_on_it() -> None:
    bad = StoragePool("thin", "b", None, None, fault="no such volume group")
    found = pools(look({"a": ToldHost(), "b": ToldHost()}, told(POOL, bad)))
    assert found["a"] == [NodePool(name="edge-pool", free_ki_bytes=40, total_ki_bytes=100)]
    assert found["b"] == [NodePool(name="thin", fault="no such volume group")]


def test_how_much_was_free_is_not_shown_of_a_node_that_is_away() -> None:
    found = pools(look({"a": ToldHost(), "b": ToldHost()}, told(POOL, away="a")))
    assert found == {"a": [NodePool(name="edge-pool", fault="its node is away")], "b": []}


@pytest.mark.parametrize(
    "storage",
    [
        None,
        PartFacts("LINSTOR", Read("Unanswered")),
        PartFacts(
            "LINSTOR", Read("Unanswered"), storage=StorageFacts((StorageNode("a", True, ""),), pools=(POOL,))
        ),
    ],
)
def test_of_a_storage_that_nobody_asks_or_that_does_not_answer_there_are_no_pools(
    storage: PartFacts | None,
) -> None:
    assert pools(look({"a": ToldHost()}, storage)) == {"a": []}


def test_taints_and_cordons_are_shown_and_are_no_fault() -> None:
    status = look({"a": ToldHost(), "b": ToldHost()}, kubernetes={"a": CORDONED, "b": SeenNode()})
    assert [one.kubernetes for one in status.nodes] == [
        ToldNode(state="Fresh", unschedulable=True, taints=list(CORDONED.taints)),
        ToldNode(state="Fresh"),
    ]
    assert status.phase == "MultiNode"
    assert conditions.is_true(status.conditions, findings.NODES_SEEN)
    (seen,) = [one for one in status.inputs if one.name == node_details.NAME]
    assert (seen.state, seen.changed_at) == ("Fresh", "2026-03-01T04:00:00Z")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("Missing", "NodeMissing"), ("Refused", "NodeRefused"), ("Unanswered", "NodeUnanswered")],
)
def test_what_could_not_be_read_is_said_and_is_no_node_without_taints(answer: str, reason: str) -> None:
    unread = SeenNode(Read(answer, message="why"))
    status = look({"a": ToldHost(), "b": ToldHost()}, kubernetes={"a": CORDONED, "b": unread})
    assert status.nodes[1].kubernetes == ToldNode(state=answer)
    found = conditions.get(status.conditions, findings.NODES_SEEN)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("Unknown", reason, "b: why")
    assert status.phase == "MultiNode", "whether pods are kept from it does not say how the site is"
    assert [one.state for one in status.inputs if one.name == node_details.NAME] == [answer]


def test_a_node_that_nobody_has_asked_for_yet_is_not_known() -> None:
    status = look({"a": ToldHost(), "b": ToldHost()}, kubernetes={"a": SeenNode()})
    assert status.nodes[1].kubernetes == ToldNode(state="Unanswered")
    found = conditions.get(status.conditions, findings.NODES_SEEN)
    assert found is not None
    assert found.message == "b: nobody has asked for it yet"


def test_nothing_is_said_of_nodes_that_a_profile_has_not_looked_at() -> None:
    status = look({"a": ToldHost()})
    assert status.nodes[0].kubernetes is None
    assert conditions.get(status.conditions, findings.NODES_SEEN) is None


def test_of_a_node_that_says_nothing_more_it_is_said_how_the_look_went() -> None:
    status = look({"a": ToldHost()}, kubernetes={"a": SeenNode(Read("Missing"))})
    found = conditions.get(status.conditions, findings.NODES_SEEN)
    assert found is not None
    assert found.message == "a: Missing"


def test_as_many_taints_as_there_is_room_for_are_shown() -> None:
    taints = [f"t{number}:NoExecute" for number in range(MAX_TAINTS)]
    found = look({"a": ToldHost()}, kubernetes={"a": SeenNode(taints=taints)}).nodes[0].kubernetes
    assert found is not None
    assert found.taints == taints


def test_of_very_many_taints_it_is_said_how_many_more_there_are() -> None:
    many = SeenNode(taints=[f"t{number}:NoExecute" for number in range(MAX_TAINTS + 4)])
    found = look({"a": ToldHost()}, kubernetes={"a": many}).nodes[0].kubernetes
    assert found is not None
    assert (len(found.taints), found.taints[-1]) == (MAX_TAINTS, "and 5 more")


def test_how_much_is_free_is_no_news_by_itself() -> None:
    node = EdgeNode(name="a", pools=[NodePool(name="p", free_ki_bytes=40, total_ki_bytes=100)])
    assert node_details.steady(node).pools == [NodePool(name="p", total_ki_bytes=100)]


def task(name: str, host: str, phase: str = "", step: str = "", at: int = 0) -> NodeTask:
    meta = ObjectMeta(name=name, creation_timestamp=f"2026-03-01T04:00:0{at}Z")
    return NodeTask(
        metadata=meta, spec=NodeTaskSpec(node_name=host), status=NodeTaskStatus(phase=phase, step=step)
    )


def test_a_node_is_at_the_task_that_runs_or_that_comes_first() -> None:
    hosts = {"a": ToldHost().node("a"), "b": ToldHost().node("b")}
    tasks = [
        task("late", "a", at=2), task("runs", "a", "Running", "flip", at=1), task("early", "a"),
        task("second", "b", at=2), task("first", "b", at=1),
    ]  # fmt: skip
    assert node_details.work(tasks, hosts) == {
        "a": NodeWork(name="runs", phase="Running", step="flip"),
        "b": NodeWork(name="first"),
    }


def test_tasks_of_one_moment_come_by_name_and_one_without_a_time_comes_first() -> None:
    hosts = {"a": ToldHost().node("a")}
    later, sooner = task("a-task", "a", at=1), task("z-task", "a")
    untimed = msgspec.structs.replace(
        task("y-task", "a"), metadata=ObjectMeta(name="y-task", creation_timestamp=None)
    )
    assert node_details.work([later, sooner], hosts)["a"].name == "z-task"
    assert node_details.work([later, sooner, untimed], hosts)["a"].name == "y-task"
    assert node_details.work([task("c", "a"), task("b", "a")], hosts)["a"].name == "b"


def test_how_far_a_silent_host_is_with_its_task_nobody_knows() -> None:
    tasks = [task("flip", "a", "Running", "flip"), task("wait", "b")]
    assert node_details.work(tasks[:1], {}) == {"a": NodeWork(name="flip", phase="Unknown")}, "nor of none"
    hosts = {name: SILENT.node(name) for name in "ab"}
    assert node_details.work(tasks, hosts) == {
        "a": NodeWork(name="flip", phase="Unknown"), "b": NodeWork(name="wait"),
    }  # fmt: skip


def test_a_host_keeps_no_status_from_being_written_by_what_it_calls_a_step() -> None:
    """A NodeTask takes any word for a step; a status of a site with such a one is refused as a whole."""
    tasks = [task("flip", "a", "Running", "fl\x1b[2Jip\n")]
    found = node_details.work(tasks, {"a": ToldHost().node("a")})["a"]
    assert found.step == "fl?[2Jip?"
