"""A thousand histories of rollouts: edits, failures, silence, outages, clocks that jump, hosts that leave.

The operator of these remembers nothing but what it has published, so it is a new one at every look. More of
them: `ROLLOUT_HISTORIES=100000`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common import choosing
from nodemanager.api.common.configsetrevision import RESTART
from nodemanager.api.common.rollout import (
    ALL_AT_ONCE,
    PAUSED,
    SCALE,
    STABLE,
    STAGED,
    UNDONE,
    RevisionRef,
    Rollout,
    RolloutStatus,
)
from nodemanager.fleet.rollout import facts, stages
from nodemanager.fleet.rollout.facts import RolloutProgress
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube.selectors import LabelSelector
from support.rollout_promises import Promises
from support.rollout_world import BAD, CANARY, GOOD, STAGES, World, world

HISTORIES, PARTS, STEPS = int(os.environ.get("ROLLOUT_HISTORIES", "1000")), 4, 7


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_a_rollout_keeps_its_promises(part: int) -> None:
    ends: Counter[str] = Counter()
    for seed in range(part, HISTORIES, PARTS):
        try:
            ends[history(seed)] += 1
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
    assert set(ends) >= {STABLE, UNDONE, PAUSED}, ends


def history(seed: int) -> str:
    """Return how one ends."""
    here = world(seed)
    promises = Promises(here)
    for _ in range(STEPS):
        here.random.choice(EVENTS)(here)
        for _ in range(here.random.choice([1, 1, 2, 9])):
            here.tick()
            promises.look()
    return promises.end()


# What happens


def time_passes(_here: World) -> None:
    pass


def edited(here: World) -> None:
    here.edit(here.random.choice(GOOD + BAD))


def edited_and_bad_on_one(here: World) -> None:
    if here.hosts:
        here.edit("good", **{here.random.choice(here.hosts).name: here.random.choice(BAD)})


def reverted(here: World) -> None:
    here.revert()


def recreated(here: World) -> None:
    here.recreate()


def restarted(here: World) -> None:
    here.annotations = {RESTART: str(here.now)}


def annotation_removed(here: World) -> None:
    here.annotations = {}


def silence(here: World) -> None:
    for host in here.hosts:
        if here.random.random() < 0.4:
            here.hush(host)


def blip(here: World) -> None:
    """A host is silent for a moment."""
    if here.hosts:
        host = here.random.choice(here.hosts)
        here.hush(host)
        here.now += timedelta(seconds=90)
        here.hush(host)


def joined(here: World) -> None:
    here.join(**here.random.choice([{}, {"canary": "true"}]))


def left(here: World) -> None:
    if here.hosts:
        here.hosts.remove(here.random.choice(here.hosts))


def made_again(here: World) -> None:
    """All hosts are replaced by new ones."""
    old, here.hosts = here.hosts, []
    for host in old:
        here.join(**host.meta.labels)


def paused(here: World) -> None:
    here.configure(paused=not here.rollout.paused)


def configured(here: World) -> None:
    draw = here.random
    choices: dict[str, tuple[Any, ...]] = {
        "stages": STAGES,
        "soak": ("0", "1m", "5m"),
        "maxUnavailable": (None, 1, "50%"),
        "canary": (None, CANARY),
        "stopAfter": (1, 2),
    }
    what = draw.choice(["stages", *choices])
    here.configure(**{what: draw.choice(choices[what])})


def switched(here: World) -> None:
    here.configure(strategy=ALL_AT_ONCE if here.rollout.strategy == STAGED else STAGED)


def switched_there_and_back(here: World) -> None:
    """While the operator is away, a change reaches all hosts at once."""
    here.configure(strategy=ALL_AT_ONCE)
    here.edit()
    here.tick(lazy=False)
    here.configure(strategy=STAGED)
    here.watched_since = here.now


def operator_away(here: World) -> None:
    for _ in range(here.random.choice([2, 8, 30])):
        here.tick()
    here.watched_since = here.now


def api_away(here: World) -> None:
    """Nobody hears of anything, and hosts are not called silent at once."""
    here.now += timedelta(seconds=here.random.choice([60, 700, 7200]))
    here.watched_since = here.now
    for host in here.hosts:
        host.acted = here.now


def clock_jumps(here: World) -> None:
    by = timedelta(seconds=here.random.choice([-7200, -30, 86400]))
    here.now += by
    here.watched_since = here.now
    for host in here.hosts:
        host.acted, host.since = here.now, host.since + by


def window(here: World) -> None:
    here.shut = not here.shut


def window_of_the_rollout(here: World) -> None:
    here.closed = not here.closed


def gate_of_health(here: World) -> None:
    here.gate = here.random.choice([RolloutReason.GATE_FAILS, RolloutReason.GATE_UNANSWERED, None])


def approval(here: World) -> None:
    here.unapproved = "" if here.unapproved else here.current.digest


def visits(here: World) -> None:
    for host in here.hosts:
        host.visited = here.random.random() < 0.3


EVENTS: tuple[Callable[[World], None], ...] = (
    time_passes, time_passes, edited, edited, edited_and_bad_on_one, reverted, recreated, restarted,
    annotation_removed, silence, blip, joined, left, made_again, paused, configured, configured, switched,
    switched_there_and_back, operator_away, api_away, clock_jumps, window,
    window_of_the_rollout, gate_of_health, approval, visits,
)  # fmt: skip


def grown(hosts: int, **rollout: Any) -> World:
    """Return many hosts that all have what is stable."""
    raw = {"strategy": STAGED, "soak": "1m", **rollout}
    here = World(msgspec.convert(raw, Rollout), [], random.Random(1))
    for _ in range(hosts):
        here.join()
    here.edit()
    while here.look().phase != STABLE:
        here.tick(lazy=False)
    here.tick()
    return here


def settled(here: World, ends: tuple[str, ...] = (STABLE, UNDONE), minutes: int = 90) -> RolloutStatus:
    """Let time pass until it ends."""
    for _ in range(minutes):
        while here.look() != here.look():
            pass
        assert here.status is not None
        if here.status.phase in ends:
            break
        here.tick(lazy=False)
    assert here.status is not None
    return here.status


@pytest.mark.parametrize(
    ("rollout", "killed"),
    [
        ({"stages": ["1", "25%", "100%"]}, 1),
        ({"stages": ["100%"], "maxUnavailable": 2}, 2),
        ({"stages": ["100%"], "maxUnavailable": 2, "stopAfter": 3}, 4),
        ({"stages": ["5", "100%"]}, 5),
    ],
)
def test_a_change_that_kills_its_hosts_does_not_go_through_the_fleet(
    rollout: dict[str, Any], killed: int
) -> None:
    here = grown(20, **rollout)
    here.edit("dies")
    found = settled(here)
    assert (found.phase, sum(one.dead for one in here.hosts) <= killed) == (UNDONE, True)
    assert "did not say that they returned" in found.message


def test_who_kills_some_hosts_only_is_stopped_too_and_those_that_come_and_go_may_be_ignored() -> None:
    for silence, phase in (("fail", UNDONE), ("ignore", STABLE)):
        here = grown(20, stages=["100%"], maxUnavailable=1, onSilence=silence)
        here.edit("good", **{one.name: "dies" for one in here.hosts[::2]})
        assert settled(here).phase == phase
        assert (sum(one.dead for one in here.hosts) == 1) == (silence == "fail")


def test_hosts_that_wake_up_one_after_the_other_have_their_time() -> None:
    here = grown(60, stages=["100%"])
    away = here.hosts[:40]
    for host in away:
        here.hush(host)
    here.tick()
    here.edit("slow")
    for minute in range(90):
        if minute % 2 == 0 and away:
            here.hush(away.pop())
        assert here.look().phase != "Undoing", (minute, here.status)
        here.tick(lazy=False)
    assert settled(here).phase == STABLE


def test_a_hung_host_is_late_although_parts_follow() -> None:
    here = grown(60, stages=["1", "100%"])
    here.configure(maxUnavailable=2)
    here.look()
    here.edit("slow")
    order = sorted(here.hosts, key=lambda one: choosing.position(one.meta.uid, here.current.digest))
    here.behaviour[here.current.digest][order[1].name] = "hung"
    digest = here.current.digest
    assert settled(here).phase == UNDONE
    assert sum(digest in one.had for one in here.hosts) < 10


def test_hosts_are_spread_evenly_and_anew_for_every_change() -> None:
    uids = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(10_000)]
    places = {digest: [choosing.position(uid, digest) for uid in uids] for digest in ("a", "b")}
    for found in places.values():
        assert all(0 <= one < SCALE for one in found)
        tenths = Counter(one * 10 // SCALE for one in found)
        assert all(900 < tenths[tenth] < 1100 for tenth in range(10)), tenths
        for size in (1, 100, 500, 2500):
            hosts = [
                facts.RolloutHost(str(number), one, canary=False, progress=RolloutProgress.HEALTHY)
                for number, one in enumerate(found)
            ]
            limit = stages.threshold(hosts, size)
            assert sum(one < limit for one in found) == size
    first = {digest: set(sorted(uids, key=dict(zip(uids, found, strict=True)).get)[:500])  # type: ignore[arg-type]
             for digest, found in places.items()}  # fmt: skip
    assert 5 < len(first["a"] & first["b"]) < 60  # 5 % of 5 %: other hosts go first each time


def test_a_host_that_joins_takes_what_is_proven_and_one_that_waits_keeps_what_it_has() -> None:
    here = world(2)
    here.status = RolloutStatus(
        observed_generation=1,
        started_at="2026-01-01T00:00:00Z",
        stable=RevisionRef(name="old"),
        next=here.current,
        threshold=SCALE,
    )
    meta = here.hosts[0].meta
    assert choosing.chosen(here.config_set(), meta) == (choosing.ContentSource.REVISION, here.current)
    late = msgspec.structs.replace(meta, creation_timestamp="2026-01-01T00:00:01Z")
    assert choosing.chosen(here.config_set(), late) == (
        choosing.ContentSource.REVISION,
        RevisionRef(name="old"),
    )
    here.generation += 1  # nobody has decided about that yet
    assert choosing.chosen(here.config_set(), meta) == (choosing.ContentSource.HELD, RevisionRef(name="old"))
    here.status = None
    assert choosing.chosen(here.config_set(), meta) == (choosing.ContentSource.HELD, None)


def test_whose_turn_it_is() -> None:
    here = world(1)
    host, canary = here.join(), here.join(canary="true")
    place = choosing.position(host.meta.uid, here.current.digest)
    status = RolloutStatus(next=here.current, threshold=place)
    assert not choosing.has_turn(status, host.meta)
    assert choosing.has_turn(msgspec.structs.replace(status, threshold=place + 1), host.meta)
    first = RolloutStatus(next=here.current, canary=LabelSelector(match_labels={"canary": "true"}))
    assert [choosing.has_turn(first, one.meta) for one in (host, canary)] == [False, True]
    assert not choosing.has_turn(msgspec.structs.replace(first, next=None), canary.meta)
