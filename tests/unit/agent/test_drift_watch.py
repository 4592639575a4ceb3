"""What counts as drift, and what a pass and the next process know of it: without a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nodemanager.agent.drift import drift
from nodemanager.agent.drift.drift import DriftWatch
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.plan import merge
from nodemanager.plan.resources import file_id
from support.root_tree import config_set

ONE, TWO = file_id("/etc/one"), file_id("/etc/two")
DECLARED = {ONE: "1", TWO: "2"}
NOW = "2026-03-01T04:00:00Z"


class Shelf:
    """Where a process leaves what it knows to the next."""

    def __init__(self, **held: str) -> None:
        self.held: Mapping[str, str] = held
        self.writes = 0

    def load_held(self) -> dict[str, str]:
        return dict(self.held)

    def save_held(self, held: Mapping[str, str]) -> bool:
        self.held, self.writes = held, self.writes + 1
        return True


def result(outcome: ResourceOutcome, one: Any = ONE, **fields: Any) -> Result:
    return Result(one, ("s",), outcome, **fields)


def holding() -> DriftWatch:
    """Return one that has seen both hold."""
    watch = DriftWatch()
    watch.judge(DECLARED, [])
    return watch


def test_what_holds_is_known_and_only_observed_where_that_is_asked_for() -> None:
    watch = DriftWatch()
    assert watch.known == frozenset()
    watch.judge(DECLARED, [result(ResourceOutcome.FAILED, TWO)])
    assert watch.known == {ONE}
    assert watch.observe_only(DECLARED, {ONE, TWO}) == {ONE}
    assert watch.observe_only({**DECLARED, ONE: "other"}, {ONE, TWO}) == frozenset()
    assert watch.observe_only(DECLARED, set()) == frozenset()
    assert watch.held(ONE, DECLARED)
    assert not watch.held(ONE, {TWO: "2"})
    watch.fresh([result(ResourceOutcome.OBSERVED, TWO, drifted=True, mark="m")])
    assert watch.known == {ONE, TWO}


@pytest.mark.parametrize(
    ("fields", "outcome", "drifted"),
    [
        ({"repairs": True}, ResourceOutcome.CHANGED, True),
        ({"repairs": True}, ResourceOutcome.OBSERVED, True),
        ({"repairs": True}, ResourceOutcome.UNCHANGED, False),
        ({"repairs": False}, ResourceOutcome.CHANGED, False),
        ({"repairs": True, "news": True}, ResourceOutcome.CHANGED, False),
    ],
)
def test_drift_is_what_held_as_it_is_declared_and_is_repaired(
    fields: dict[str, bool], outcome: ResourceOutcome, drifted: bool
) -> None:
    (judged,) = holding().judge(DECLARED, [result(outcome, **fields)])
    assert judged.drifted == drifted
    (judged,) = holding().judge({**DECLARED, ONE: "other"}, [result(outcome, **fields)])
    assert not judged.drifted
    (judged,) = holding().judge({TWO: "2"}, [result(outcome, **fields)])
    assert not judged.drifted


def test_a_pass_is_judged_by_what_held_when_it_began() -> None:
    changed = [result(ResourceOutcome.CHANGED, repairs=True)]
    watch = DriftWatch()
    watch.begin()
    watch.judge(DECLARED, [result(ResourceOutcome.UNCHANGED)], whole=False)  # a repair, in between
    assert not watch.judge(DECLARED, changed)[0].drifted
    assert watch.judge(DECLARED, changed)[0].drifted  # the next one has nothing from before


def test_what_failed_may_be_half_done_but_what_held_is_held_still() -> None:
    failed, blocked = (result(one) for one in (ResourceOutcome.FAILED, ResourceOutcome.BLOCKED))
    watch = holding()
    watch.judge(DECLARED, [failed], whole=False)
    assert watch.held(ONE, DECLARED)
    edited = {**DECLARED, ONE: "other"}
    watch.judge(edited, [blocked], whole=False)
    assert watch.held(ONE, DECLARED)  # nothing was done
    watch.judge(edited, [failed], whole=False)
    assert not watch.held(ONE, DECLARED)


def test_a_difference_that_is_gone_is_told_again_when_it_comes_back() -> None:
    watch = holding()
    seen = [result(ResourceOutcome.OBSERVED, drifted=True, mark="m")]

    def told(*results: Result, whole: bool = True) -> int:
        return len(watch.fresh(watch.judge(DECLARED, results, whole=whole)))

    assert len(watch.fresh(seen)) == 1
    assert len(watch.fresh(seen)) == 0
    assert told(result(ResourceOutcome.UNCHANGED, TWO), whole=False) == 0
    assert len(watch.fresh(seen)) == 0  # that was about another one
    assert told(result(ResourceOutcome.UNCHANGED), whole=False) == 0
    assert len(watch.fresh(seen)) == 1
    other = result(ResourceOutcome.OBSERVED, file_id("/etc/gone"), drifted=True, mark="m")
    assert (len(watch.fresh([other])), len(watch.fresh([other]))) == (1, 0)
    watch.judge(DECLARED, [], whole=False)
    assert len(watch.fresh([other])) == 0
    watch.judge(DECLARED, [])  # nobody declares it
    assert len(watch.fresh([other])) == 1


def test_a_failure_is_told_again_when_it_is_another_one() -> None:
    watch = holding()

    def bad(why: str) -> Result:
        return result(ResourceOutcome.FAILED, drifted=True, message=why)

    assert [len(watch.fresh([bad(why)])) for why in ("full", "full", "gone")] == [1, 0, 1]
    assert watch.fresh([result(ResourceOutcome.FAILED, message="full")]) == []  # no drift


def test_whoever_is_to_be_called_now_is_told_what_was_only_observed() -> None:
    watch = holding()
    seen = result(ResourceOutcome.OBSERVED, drifted=True, mark="m", policy="observe")
    assert [len(watch.fresh([seen])), len(watch.fresh([seen]))] == [1, 0]
    called = result(ResourceOutcome.OBSERVED, drifted=True, mark="m", policy="escalate")
    assert [len(watch.fresh([called])), len(watch.fresh([called]))] == [1, 0]


def test_the_next_process_knows_the_same_and_nothing_is_written_twice() -> None:
    shelf = Shelf()
    watch = DriftWatch(shelf)
    watch.judge({ONE: "1"}, [])
    watch.fresh([result(ResourceOutcome.OBSERVED, TWO, drifted=True, mark="m")])
    before = watch.document()
    watch.save()
    watch.save()
    assert (shelf.writes, dict(shelf.held)) == (1, before)
    again = DriftWatch(shelf)
    assert (again.known, again.document()) == (watch.known, before)
    again.save()
    assert shelf.writes == 1
    again.save({})
    assert (shelf.writes, shelf.held) == (2, {})


def test_without_a_store_nothing_is_saved_and_what_cannot_be_read_is_left_out() -> None:
    watch = holding()
    watch.save()
    assert watch.known == {ONE, TWO}
    strange = Shelf(**{"file:/etc/one": "1", "nonsense": "2", "observed nonsense": "3"})
    assert DriftWatch(strange).known == {ONE}


@pytest.mark.parametrize(
    ("one", "took", "expected"),
    [
        (result(ResourceOutcome.CHANGED, policy="escalate", by="uid 0"), 1.25, ("repaired", "", "1.25s")),
        (result(ResourceOutcome.CHANGED), -3.0, ("repaired", "", "0s")),
        (result(ResourceOutcome.OBSERVED, policy="observe"), 2.0, ("observed", "", "")),
        (result(ResourceOutcome.OBSERVED, policy="escalate"), 2.0, ("observed", "escalate", "")),
        (result(ResourceOutcome.HELD), 2.0, ("observed", "", "")),
        (result(ResourceOutcome.SHUT), 2.0, ("observed", "", "")),
        (result(ResourceOutcome.FAILED, policy="escalate"), 2.0, ("failed", "escalate", "")),
    ],
)
def test_what_is_recorded_of_a_drift(one: Result, took: float, expected: tuple[str, str, str]) -> None:
    found = drift.record(one, NOW, took)
    assert (found.outcome, found.policy, found.took) == expected
    assert (found.time, found.resource, found.by) == (NOW, "file:/etc/one", one.by)


def test_a_declaration_is_known_by_24_digits_that_change_with_it() -> None:
    def of(content: str) -> dict[Any, str]:
        one = config_set("s", files=[{"path": "/etc/one", "content": content}])
        return drift.declarations(merge.merge([one]), {})

    assert list(of("a")) == [ONE]
    assert len(of("a")[ONE]) == 24
    assert of("a") == of("a") != of("b")
