"""Hosts of a rollout of one set or of several: each counts once, with the set with which it is worst."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common import choosing
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.api.common.rollout import (
    PROGRESSING,
    STAGED,
    UNDONE,
    RevisionRef,
    Rollout,
    RolloutStatus,
    ThresholdTurn,
)
from nodemanager.api.common.rollout_groups import GroupMember, GroupRef
from nodemanager.fleet.rollout import judging
from nodemanager.fleet.rollout.facts import RolloutHost, RolloutProgress
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.fleet.rollout.remembering import HostMemory, RolloutPart
from nodemanager.fleet.rollout.witness import Witness
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.selectors import LabelSelector

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW = BEGAN + timedelta(minutes=5)
AT, LATER = times.rfc3339(BEGAN), times.rfc3339(NOW)
ALL, WEB = LabelSelector(), LabelSelector(match_labels={"role": "web"})


def ref(name: str, letter: str, meant: LabelSelector = ALL) -> RevisionRef:
    return RevisionRef(name=f"{name}-2", revision=2, digest=letter * 64, node_selector=meant)


CHANGE = GroupRef(
    name="both", id="x", members=[GroupMember(name=one, digest=two * 64) for one, two in ("ab", "cd")]
)


def status(next_: RevisionRef | None, group: GroupRef | None = None, **fields: Any) -> RolloutStatus:
    known = {"phase": PROGRESSING, "since": AT, "started_at": AT, "stage": 1, "threshold": 10**9}
    return RolloutStatus(**{**known, **fields}, next=next_, group=group)


A, C = RolloutPart("a", status(ref("a", "b"), CHANGE)), RolloutPart("c", status(ref("c", "d"), CHANGE))


def node(name: str, *, made: str | None = None, role: str = "web", **reports: Any) -> ManagedNode:
    """Return a host that says of sets: a digest's letter, or more of it."""
    found = []
    for one, said in reports.items():
        fields = {"digest": said * 64} if isinstance(said, str) else said
        found.append(AppliedConfigSet(**{"name": one, "observed_generation": 1, **fields}))
    alive = Condition(type="Alive", status="True", last_transition_time=AT)
    meta = ObjectMeta(name=name, uid=f"uid-{name}", labels={"role": role}, creation_timestamp=made)
    said = ManagedNodeStatus(release="6.1", configsets=found, conditions=[alive])
    return ManagedNode(metadata=meta, status=said)


def look(parts: list[RolloutPart], *nodes: ManagedNode, **more: Any) -> dict[str, RolloutHost]:
    return {one.name: one for one in judging.hosts_of(parts, nodes, now=NOW, **more)}


BROKEN: dict[str, Any] = {"digest": "b" * 64, "error": "cannot write /x: no space"}
HELD: dict[str, Any] = {"digest": "0" * 64, "held": True}


@pytest.mark.parametrize(
    ("first", "second", "progress"),
    [
        pytest.param("b", "d", RolloutProgress.HEALTHY, id="well with both"),
        pytest.param("b", "0", RolloutProgress.UNPROVEN, id="has yet to take one"),
        pytest.param("0", "d", RolloutProgress.UNPROVEN, id="has yet to take the other"),
        pytest.param(BROKEN, "0", RolloutProgress.FAILED, id="failed with one"),
        pytest.param(BROKEN, "d", RolloutProgress.FAILED, id="failed with one, and is well with the other"),
        pytest.param(HELD, "d", RolloutProgress.PUT_OFF, id="puts one off"),
        pytest.param(HELD, "0", RolloutProgress.UNPROVEN, id="puts one off, and has yet to take the other"),
    ],
)
def test_a_host_is_what_it_is_with_the_set_with_which_it_is_worst(
    first: Any, second: Any, progress: RolloutProgress
) -> None:
    one = node("h", a=first, c=second)
    for parts in ([A, C], [C, A]):
        found = judging.hosts_of(parts, [one], now=NOW)
        assert [host.progress for host in found] == [progress]


def test_a_host_takes_part_with_those_sets_that_are_for_it_and_once() -> None:
    web = RolloutPart("c", status(ref("c", "d", WEB), CHANGE))
    found = look([A, web], node("both", a="b", c="d"), node("one", role="db", a="b"))
    assert {name: one.progress for name, one in found.items()} == {
        "both": RolloutProgress.HEALTHY, "one": RolloutProgress.HEALTHY
    }  # fmt: skip
    assert look([web], node("none", role="db")) == {}


def test_where_a_host_stands_is_told_by_the_change_that_it_is_about() -> None:
    one = node("h", a="b", c="d")
    alone = status(ref("a", "b"))
    place = choosing.place(alone, one.metadata)
    assert place > 0
    assert look([RolloutPart("a", alone)], one)["h"].position == place
    together = choosing.place(A.status, one.metadata)
    assert look([A, C], one)["h"].position == choosing.place(C.status, one.metadata) == together
    other = RolloutPart("c", status(ref("c", "d"), msgspec.structs.replace(CHANGE, id="y")))
    late = node("h", a="b", c="0")
    own = choosing.place(other.status, late.metadata)
    assert own != together
    assert look([A, other], late)["h"].position == own, "two changes are two orders"


def test_what_is_remembered_of_hosts_that_take_no_part_stays_when_others_have_their_turn() -> None:
    memory = HostMemory()
    inside, outside = node("in", a="b"), node("out", role="db", a="b")
    part = RolloutPart("a", status(ref("a", "b", WEB)))
    first = look([part], inside, outside, memory=memory)
    turn = status(ref("a", "b", WEB), turns=[ThresholdTurn(threshold=10**9, at=LATER)])
    second = look([RolloutPart("a", turn)], inside, outside, memory=memory)
    assert (list(first), list(second)) == (["in"], ["in"])
    assert (first["in"].turn, second["in"].turn) == (None, NOW)
    assert second["in"]._replace(turn=None) == first["in"]


def rollout() -> Rollout:
    return Rollout(strategy=STAGED, stages=["1"])


def go_on(base: RolloutStatus, *nodes: ManagedNode, known: Witness | None = None) -> Any:
    seen = known or Witness()
    return judging.go_on(
        rollout(), base, lambda one: [RolloutPart("a", one)], nodes, RolloutLook(NOW, witness=seen)
    )


def test_a_process_remembers_who_was_well_or_put_off_and_who_is_not_any_more() -> None:
    base = status(ref("a", "b"), stable=ref("a", "0"))
    nodes = [node("well", a="b"), node("off", a=HELD), node("not", a="0"), node("broken", a=BROKEN)]
    seen = go_on(base, *nodes).witness
    assert (seen.proven, seen.relapsed) == ({"well", "off"}, {})
    again = go_on(base, node("well", a="0"), node("off", a="0"), *nodes[2:], known=seen).witness
    assert (again.proven, again.relapsed) == (set(), {"well": NOW, "off": NOW})
    assert seen.calm == {"well", "off", "not", "broken"}


def test_of_a_change_that_nobody_has_yet_nothing_is_remembered_from_before() -> None:
    waits = status(ref("a", "b"), stage=0, threshold=0)
    known = Witness(("b" * 64, AT), calm=frozenset(("gone",)))
    assert go_on(waits, node("h", a="0"), known=known).witness.calm == {"h"}
    begun = status(ref("a", "b"))
    assert go_on(begun, node("h", a="0"), known=known).witness.calm == {"h", "gone"}


def test_a_rollout_whose_hosts_were_all_made_anew_begins_with_these() -> None:
    base = status(ref("a", "b"), stable=ref("a", "0"))
    found = go_on(base, node("new", made=LATER, a="0")).status
    assert times.parse(found.started_at) == NOW
    assert go_on(base, node("old", made=AT, a="0"), node("new", made=LATER)).status.started_at == AT
    assert go_on(base).status.started_at == AT, "nobody is there"
    undone = status(None, phase=UNDONE, refused=ref("a", "b"), stable=ref("a", "0"))
    assert go_on(undone, node("new", made=LATER, a="0")).status.started_at == AT


def test_the_newest_host_is_the_one_that_joined_last() -> None:
    nodes = [node("a", made=AT), node("b", made=LATER), node("c")]
    assert judging.newest(nodes, BEGAN - timedelta(days=1)) == NOW
    assert judging.newest([node("c")], BEGAN) == BEGAN
