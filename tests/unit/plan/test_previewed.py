"""What a host answers: only what the proposal brings, and never more than there is room for."""

from __future__ import annotations

import time

import msgspec
import pytest

from nodemanager.api.maintenance.task_previews import MAX_CHANGES, MAX_DETAILS, PreviewedChange
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, InstallPackage, Noop, Observed, Step
from nodemanager.plan.tasks import previewed

X, Y = ResourceId("package", "x"), ResourceId("package", "y")


def install(name: str, version: str = "") -> Step:
    one = ResourceId("package", name)
    return InstallPackage(id=one, sources=("a",), reason="missing", name=name, version=version)


def test_what_is_to_be_done_anyway_is_not_the_proposals() -> None:
    stuck = Blocked(id=Y, sources=("b",), reason="no such package")
    now = [install("x"), stuck, Noop(id=ResourceId("package", "z"), sources=("a",), reason="there")]
    assert previewed.steps(now, now) == []
    assert previewed.steps([install("x", "2"), stuck], now) == [install("x", "2")]


def test_what_nobody_declares_then_is_told() -> None:
    def desired(*ids: ResourceId, **held: str) -> Desired:
        return Desired(
            {"package": tuple(Item(one, None, ("a",)) for one in ids)}, held={Y: "why"} if held else {}
        )

    found = previewed.released(desired(X), desired(X, Y))
    assert [(one.resource, one.verb) for one in found] == [("package:y", "release")]
    assert previewed.released(desired(X, held="yes"), desired(X, Y)) == [], (
        "it is still declared, in conflict"
    )


def test_an_answer_is_bounded_and_its_digest_is_of_all_of_it() -> None:
    long = [
        PreviewedChange(resource=f"file:/x/{n}", verb="write", reason="r" * 2000, details="+line\n" * 5000)
        for n in range(500)
    ]
    said = previewed.summary(long)
    assert (said.changed, said.blocked) == (500, 0)
    assert len(said.changes) <= MAX_CHANGES
    assert len(msgspec.json.encode(said)) < 2 * previewed.MAX_ROOM
    assert all(len(one.details) <= MAX_DETAILS for one in said.changes)
    assert said.changes[0].details.endswith("more lines")
    later = [*long[:-1], msgspec.structs.replace(long[-1], details="other")]
    assert previewed.summary(later).digest != said.digest
    assert previewed.summary(list(long)).digest == said.digest
    assert previewed.summary([]).changed == 0


def test_another_set_that_says_the_same_is_no_change() -> None:
    two = msgspec.structs.replace(install("x"), sources=("a", "b"))
    assert previewed.steps([two], [install("x")]) == []


def test_what_is_left_alone_is_not_told() -> None:
    left = Observed(id=X, sources=("a",), reason="observed", would=install("x"))
    assert previewed.steps([left], []) == []
    assert previewed.steps([install("x")], [left]) == [install("x")], "now it would be put back"


def test_the_longest_text_is_cut_at_once() -> None:
    began = time.process_time()
    said = previewed.cut("\n" * 262_144, MAX_DETAILS)
    assert time.process_time() - began < 0.5
    assert (len(said) <= MAX_DETAILS, said.endswith("more lines")) == (True, True)


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("a\nb", 3, "a\nb"),
        ("aaaa\nbbbb\ncccc\n" + "d" * 40, 34, "aaaa\nbbbb\n... and 2 more lines"),
        ("aaaa\nbbbb\ncccc\n" + "d" * 40, 35, "aaaa\nbbbb\ncccc\n... and 1 more line"),
        ("x" * 50, 20, "xxxxxx ... xxxxxxxxx"),
        ("x\n" * 50, 4, ""),
    ],
)
def test_where_a_text_is_cut(text: str, limit: int, cut: str) -> None:
    assert previewed.cut(text, limit) == cut
