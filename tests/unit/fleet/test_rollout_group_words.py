"""What a group says as one, whatever of it was written so far, and what each of its sets publishes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.configsetrevision import RESTART
from nodemanager.api.common.enforcement import Enforcement
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode, ManagedNodeStatus
from nodemanager.api.common.rollout import (
    PROGRESSING,
    SOAKING,
    STABLE,
    STAGED,
    UNDOING,
    UNDONE,
    WAITING,
    RevisionRef,
    Rollout,
    RolloutApproval,
    RolloutStatus,
)
from nodemanager.api.common.rollout_groups import GroupMember, GroupRef, change_of
from nodemanager.fleet.rollout import grouping
from nodemanager.fleet.rollout.grouping import MAX_RESTART, SETTLE_SECONDS, GroupDecision, Member
from nodemanager.fleet.rollout.looking import RolloutLook
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.selectors import LabelSelector

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT = times.rfc3339(NOW - timedelta(minutes=1))
GROUP = "both"


def ref(name: str, letter: str) -> RevisionRef:
    return RevisionRef(name=f"{name}-{letter}", digest=letter * 64, node_selector=LabelSelector())


def change(**members: str) -> GroupRef:
    """Return a change by what its members say in it."""
    return change_of(GROUP, [GroupMember(name=one, digest=two * 64) for one, two in members.items()])


BOTH = change(a="n", b="n")


def status(
    name: str, phase: str = PROGRESSING, group: GroupRef = BOTH, *, stable: str = "o", **fields: Any
) -> RolloutStatus:
    for one in {"next", "refused"} & fields.keys():
        fields[one] = ref(name, fields[one])
    known: dict[str, Any] = {"since": AT, "started_at": AT, "observed_generation": 1, **fields}
    old = ref(name, stable) if stable else None
    return RolloutStatus(phase=phase, group=group, stable=old, **known)


def member(
    name: str, says: str = "n", published: RolloutStatus | None = None, *, notes: str = "", **rollout: Any
) -> Member:
    meta = ObjectMeta(name=name, generation=3, annotations={RESTART: notes} if notes else {})
    spec = ConfigSetSpec(rollout=Rollout(strategy=STAGED, group=GROUP, **rollout))
    return Member(ConfigSet(meta, spec, ConfigSetStatus(rollout=published)), ref(name, says))


def host(name: str, error: str = "", **digests: str) -> ManagedNode:
    reports = [
        AppliedConfigSet(name=one, observed_generation=1, digest=two * 64, error=error)
        for one, two in digests.items()
    ]
    alive = Condition(type="Alive", status="True", last_transition_time=AT)
    return ManagedNode(
        metadata=ObjectMeta(name=name, uid=name),
        status=ManagedNodeStatus(release="6.1", configsets=reports, conditions=[alive]),
    )


def decided(members: list[Member], *nodes: ManagedNode, now: datetime = NOW) -> GroupDecision:
    return grouping.decide(GROUP, members, nodes, RolloutLook(now))


def joined(**olds: RolloutStatus) -> grouping.Joint:
    return grouping.joined(GROUP, olds)


def test_what_is_stable_in_one_and_next_in_another_is_finished() -> None:
    found = joined(a=status("a", STABLE, stable="n"), b=status("b", next="n"))
    assert (found.unfinished, found.change) == (True, BOTH)
    assert not joined(a=status("a", STABLE, stable="n"), b=status("b", STABLE, stable="n")).unfinished


def test_what_is_refused_in_one_is_undone_in_all_unless_it_was_proven() -> None:
    undone = status("a", UNDONE, refused="n")
    found = joined(a=undone, b=status("b", next="n"))
    assert (found.change, found.unfinished, found.status.phase) == (BOTH, False, UNDONE)
    assert (found.status.next, found.status.stable, found.status.group) == (None, RevisionRef(), None)
    assert found.status.refused is not None
    assert found.status.refused.digest == BOTH.id
    assert joined(b=status("b", next="n"), a=undone).status.phase == UNDONE, "whichever is asked first"
    proven = joined(a=undone, b=status("b", STABLE, stable="n"))
    assert (proven.status.refused, proven.change.id) == (None, "")


def test_what_all_have_next_is_as_far_as_the_one_that_is_least_far() -> None:
    far, near = status("a", SOAKING, next="n", threshold=900), status("b", next="n", threshold=500)
    for olds in ({"a": far, "b": near}, {"b": near, "a": far}):
        found = joined(**olds)
        assert (found.status.threshold, found.status.phase, found.change) == (500, PROGRESSING, BOTH)
        assert found.status.next is not None
        assert found.status.next.digest == BOTH.id
    stages = {"a": status("a", next="n", stage=2), "b": status("b", next="n", stage=1)}
    assert joined(**stages).status.stage == 1


def test_what_only_some_have_next_begins_anew() -> None:
    for other in (status("b", STABLE), status("b", next="x"), status("b", group=GroupRef(name=GROUP))):
        found = joined(a=status("a", next="n", threshold=500), b=other)
        assert (found.status.threshold, found.status.next, found.change.id) == (0, None, "")
    missing = joined(a=status("a", next="n", threshold=500))
    assert (missing.status.next, missing.change) == (None, GroupRef(name=GROUP)), "one left the group"


def test_a_group_in_which_nothing_happens_is_as_the_set_that_is_stable() -> None:
    quiet = status("b", STABLE, GroupRef(name=GROUP), message="quiet")
    for other in (
        status("a", PROGRESSING, GroupRef(name=GROUP), message="other"),
        status("a", STABLE, GroupRef(name=GROUP), next="x", message="other"),
    ):
        assert joined(a=other, b=quiet).status.message == "quiet"
        assert joined(a=other).status == RolloutStatus(stable=RevisionRef())


def test_the_change_is_what_says_something_else_than_what_is_stable() -> None:
    olds = {"a": status("a", STABLE), "b": status("b", STABLE), "c": RolloutStatus()}
    members = [member("a", "n"), member("b", "o"), member("c", "n")]
    assert grouping.change_of(GROUP, members, olds) == change(a="n", c="n")
    assert grouping.change_of(GROUP, members[1:2], olds) == GroupRef(name=GROUP)


def test_which_members_are_changing() -> None:
    members = [
        member("same", "o", status("same", STABLE)),
        member("other", "n", status("other", STABLE)),
        member("bare", "n", status("bare", stable="")),
        member("new", "n"),
    ]
    assert [one.name for one in grouping.changing(members)] == ["other", "bare", "new"]


def test_a_group_is_paused_by_any_of_its_sets_and_rolled_out_as_the_first_says() -> None:
    members = [member("a", soak="7m"), member("b", soak="9m", paused=True)]
    found = grouping.one_rollout(members)
    assert (found.soak, found.paused) == ("7m", True)
    assert not grouping.one_rollout(members[:1]).paused
    plain = Member(ConfigSet(ObjectMeta(name="p"), ConfigSetSpec()), ref("p", "o"))
    assert plain.rollout == Rollout()


def test_what_the_sets_of_a_group_do_not_say_alike_is_named() -> None:
    first = member("a", soak="7m")
    assert grouping.mismatch([first]) == ""
    assert grouping.mismatch([first, member("b", soak="7m", paused=True)]) == ""
    assert grouping.mismatch([first, member("b", soak="9m")]) == (
        "b and a of the group differ in spec.rollout.soak"
    )
    one, other = (
        member(name, approval=RolloutApproval(required=True, different_user=True, requester=who))
        for name, who in (("a", "ada"), ("b", "bob"))
    )
    assert grouping.mismatch([one, other]) == "", "two people may have written them"
    assert "spec.rollout.approval" in grouping.mismatch([one, member("b")])
    spec = msgspec.structs.replace(first.config_set.spec, enforcement=Enforcement())
    windowed = Member(ConfigSet(ObjectMeta(name="b"), spec), ref("b", "n"))
    assert grouping.mismatch([first, windowed]) == "b and a of the group differ in spec.enforcement"
    both = msgspec.structs.replace(spec, rollout=Rollout(strategy=STAGED, group=GROUP, soak="1m"))
    odd = Member(ConfigSet(ObjectMeta(name="b"), both), ref("b", "n"))
    assert grouping.mismatch([first, odd]).endswith("in spec.rollout.soak, spec.enforcement")


def test_a_set_that_has_left_its_group_begins_anew_with_what_was_under_way() -> None:
    quiet = status("a", STABLE, message="quiet")
    assert grouping.alone(quiet, NOW) == msgspec.structs.replace(quiet, group=None)
    found = grouping.alone(status("a", next="n", threshold=500), NOW)
    assert (found.phase, found.reason, found.next, found.stable) == (
        STABLE, RolloutReason.NO_CHANGE, None, ref("a", "o")
    )  # fmt: skip
    assert found.group is None


JOINT_NEXT = RolloutStatus(phase=PROGRESSING, next=RevisionRef(digest=BOTH.id), threshold=500)
JOINT_UNDOING = RolloutStatus(phase=UNDOING, refused=RevisionRef(digest=BOTH.id))
JOINT_STABLE = RolloutStatus(phase=STABLE)
NO_CHANGE = GroupRef(name=GROUP)


@pytest.mark.parametrize(
    ("says", "old", "about", "joint", "wanted"),
    [
        pytest.param("n", status("a"), BOTH, JOINT_NEXT, ("o", "n", "", BOTH), id="rolled out"),
        pytest.param("o", status("a"), change(b="n"), JOINT_NEXT, ("o", "", "", NO_CHANGE), id="of another"),
        pytest.param("n", status("a", next="n"), BOTH, JOINT_UNDOING, ("o", "", "n", BOTH), id="undone"),
        pytest.param(
            "o", status("a", next="n"), BOTH, JOINT_UNDOING, ("o", "", "n", BOTH), id="undone by its spec"
        ),
        pytest.param(
            "o", status("a", UNDOING, refused="n"), BOTH, JOINT_UNDOING, ("o", "", "n", BOTH),
            id="goes on to be undone",
        ),
        pytest.param(
            "o", status("a"), change(b="n"), JOINT_UNDOING, ("o", "", "", NO_CHANGE), id="another is undone"
        ),
        pytest.param("n", status("a", next="n"), BOTH, JOINT_STABLE, ("n", "", "", BOTH), id="the end"),
        pytest.param(
            "n", status("a", STABLE, stable="n"), NO_CHANGE, JOINT_STABLE, ("n", "", "", BOTH),
            id="stable since its last change",
        ),
        pytest.param(
            "n", status("a", STABLE, stable="n"), change(b="x"), JOINT_NEXT, ("n", "", "", NO_CHANGE),
            id="stable while another one changes",
        ),
        pytest.param(
            "o", RolloutStatus(stable=ref("a", "o")), NO_CHANGE, JOINT_STABLE, ("o", "", "", NO_CHANGE),
            id="stable before it came",
        ),
        pytest.param(
            "n", status("a", stable="x"), NO_CHANGE, JOINT_STABLE, ("n", "", "", NO_CHANGE),
            id="what it says is stable now",
        ),
    ],
)  # fmt: skip
def test_what_each_set_publishes(
    says: str, old: RolloutStatus, about: GroupRef, joint: RolloutStatus, wanted: tuple[Any, ...]
) -> None:
    found = grouping.published(member("a", says, old), old, about, joint)
    told = [one.digest[:1] if one is not None else "" for one in (found.stable, found.next, found.refused)]
    assert (*told, found.group) == wanted
    assert (found.observed_generation, found.current) == (3, f"a-{says}")
    assert (found.phase, found.threshold) == (joint.phase, joint.threshold)


def test_the_word_by_which_somebody_has_it_tried_again_is_kept() -> None:
    old = status("a", restarted="one")
    assert grouping.published(member("a"), old, BOTH, JOINT_NEXT).restarted == "one"
    assert grouping.published(member("a", notes="two"), old, BOTH, JOINT_NEXT).restarted == "two"
    assert len(grouping.restart_of(ObjectMeta(annotations={RESTART: "x" * 99}))) == MAX_RESTART


@pytest.mark.parametrize(
    ("notes", "restarted", "again"),
    [("", "", False), ("now", "", True), ("now", "now", False), ("", "now", False)],
)
def test_one_set_that_is_tried_again_has_all_of_them_tried(notes: str, restarted: str, again: bool) -> None:
    undone = {one: status(one, UNDONE, refused="n", reason=RolloutReason.HOSTS_FAILED) for one in "ab"}
    undone["b"] = msgspec.structs.replace(undone["b"], restarted=restarted)
    members = [member("a", "n", undone["a"]), member("b", "n", undone["b"], notes=notes)]
    found = decided(members, host("h", a="o", b="o")).statuses
    assert {one.phase for one in found.values()} == ({WAITING} if again else {UNDONE})
    assert {one.refused is None for one in found.values()} == {again}
    fresh = decided([member("a", notes="now"), member("b")], host("h", a="o", b="o")).statuses
    assert all(one.phase for one in fresh.values()), "nothing is published of it yet"


def test_what_was_undone_is_not_tried_again_by_those_that_are_left_of_it() -> None:
    both = {one: status(one, UNDONE, refused="n") for one in "ab"}
    alone = decided([member("a", "n", both["a"])], host("h", a="o")).statuses["a"]
    assert (alone.phase, alone.next) == (UNDONE, None)
    edited = decided([member("a", "x", both["a"]), member("b", "n", both["b"])], host("h", a="o", b="o"))
    assert {one.phase for one in edited.statuses.values()} == {WAITING}


def test_hosts_that_failed_with_any_of_the_sets_are_told_to_all() -> None:
    news = {one: status(one, next="n", threshold=10**9, stage=4) for one in "ab"}
    members = [member(one, "n", news[one], soak="1m") for one in "ab"]
    well = decided(members, host("h", a="n", b="n")).statuses
    assert {one.phase for one in well.values()} == {SOAKING}
    half = decided(members, host("h", a="n", b="o")).statuses
    assert {one.phase for one in half.values()} == {PROGRESSING}
    undone = decided(members, host("h", "cannot write", a="n", b="n")).statuses
    assert {(one.phase, one.next, one.refused is None) for one in undone.values()} == {(UNDOING, None, False)}


def test_nobody_has_a_turn_until_the_sets_have_been_left_alone_for_a_while() -> None:
    members = [member(one, "n", status(one, STABLE, NO_CHANGE)) for one in "ab"]
    hosts = host("h", a="o", b="o")
    first = decided(members, hosts)
    assert {(one.phase, one.threshold) for one in first.statuses.values()} == {(WAITING, 0)}
    waits = [member(one, "n", first.statuses[one]) for one in "ab"]
    second = decided(waits, hosts, now=NOW)
    assert {one.reason for one in second.statuses.values()} == {RolloutReason.GROUP_SETTLING}
    waits = [member(one, "n", second.statuses[one]) for one in "ab"]
    early = decided(waits, hosts, now=NOW + timedelta(seconds=SETTLE_SECONDS - 1))
    assert {one.threshold for one in early.statuses.values()} == {0}
    assert early.again is not None
    assert early.again <= 1.0
    late = decided(waits, hosts, now=NOW + timedelta(seconds=SETTLE_SECONDS))
    assert {one.phase for one in late.statuses.values()} == {PROGRESSING}
    assert all(one.threshold for one in late.statuses.values())


def test_a_half_written_end_is_written_to_the_others_and_nothing_else() -> None:
    done = status("a", STABLE, stable="n", message="done")
    members = [member("a", "n", done), member("b", "x", status("b", next="n")), member("c", "n")]
    found = decided(members)
    assert (list(found.statuses), found.again) == (["a", "b"], 0.0)
    assert found.statuses["a"] == done
    b = found.statuses["b"]
    assert (b.phase, b.reason, b.stable, b.next, b.group) == (
        STABLE, RolloutReason.ROLLED_OUT, ref("b", "n"), None, BOTH
    )  # fmt: skip


def test_a_set_that_was_alone_or_elsewhere_comes_to_the_group_with_what_is_stable() -> None:
    elsewhere = msgspec.structs.replace(status("b", next="n", threshold=500), group=GroupRef(name="other"))
    members = [member("a", "o", status("a", STABLE)), member("b", "n", elsewhere)]
    found = decided(members, host("h", a="o", b="o")).statuses
    assert (found["b"].threshold, found["b"].group) == (0, change(b="n"))
    assert found["b"].stable == ref("b", "o")
