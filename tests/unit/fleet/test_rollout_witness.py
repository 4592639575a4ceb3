"""What a process keeps of what it has seen of a rollout."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nodemanager.api.common.rollout import RevisionRef, RolloutStatus
from nodemanager.fleet.rollout import witness
from nodemanager.fleet.rollout.witness import NOTHING, Witness

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(minutes=5)
AT, LATER = "2026-01-01T11:00:00Z", "2026-01-01T11:30:00Z"
NEW, OTHER = (RevisionRef(name=f"web-{one}", revision=2, digest=one * 64) for one in "ab")


@pytest.mark.parametrize(
    ("stage", "threshold", "whole"),
    [(0, 0, True), (1, 0, False), (0, 5, False), (1, 5, False), (0, 1, False)],
)
def test_a_rollout_was_seen_from_its_beginning_if_nobody_had_a_turn_by_then(
    stage: int, threshold: int, whole: bool
) -> None:
    status = RolloutStatus(next=NEW, started_at=AT, stage=stage, threshold=threshold)
    assert witness.of(NOTHING, status) == Witness((NEW.digest, AT), whole=whole)
    assert not NOTHING.whole


def test_what_was_seen_is_of_one_rollout_however_far_that_is() -> None:
    known = Witness((NEW.digest, AT), whole=True, proven=frozenset("a"))
    assert witness.of(known, RolloutStatus(next=NEW, started_at=AT, stage=3, threshold=99)) is known
    for status in (
        RolloutStatus(next=OTHER, started_at=AT),
        RolloutStatus(next=NEW, started_at=LATER),
        RolloutStatus(started_at=AT),
    ):
        assert witness.of(known, status).proven == frozenset()
    assert witness.of(NOTHING, RolloutStatus(started_at=AT)).rollout == ("", AT)


def test_a_host_relapses_once_and_since_the_first_look_that_saw_it() -> None:
    known = Witness(
        ("x", AT), whole=True, proven=frozenset(("fell", "fine")), relapsed={"down": BEFORE, "up": BEFORE},
        calm=frozenset(("fine",)),
    )  # fmt: skip
    found = witness.after(known, ["fine", "up"], ["fell", "down", "new"], ["new"], NOW)
    assert found == Witness(
        ("x", AT), whole=True, proven=frozenset(("fine", "up")), relapsed={"fell": NOW, "down": BEFORE},
        calm=frozenset(("fine", "new")),
    )  # fmt: skip
    again = witness.after(found, ["fine"], ["fell", "down", "up"], [], NOW + timedelta(minutes=1))
    assert again.relapsed == {"fell": NOW, "down": BEFORE, "up": NOW + timedelta(minutes=1)}
