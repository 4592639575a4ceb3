"""A thousand histories of rollouts: edits, failures, silence, clocks that jump, hosts that leave.

The operator of these remembers nothing but what it has published, so it is a new one at every look.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import msgspec
import pytest

from nodemanager.api.common import choosing
from nodemanager.api.common.rollout import (
    PAUSED,
    SCALE,
    STABLE,
    UNDOING,
    UNDONE,
    WAITING,
    RevisionRef,
    RolloutStatus,
)
from nodemanager.fleet.rollout import facts, stages
from nodemanager.fleet.rollout.facts import Progress
from nodemanager.fleet.rollout.reasons import REMEDIES, RolloutReason
from support.rollout_world import World, world

HISTORIES, PARTS, STEPS = 1000, 4, 25
ENDS = (STABLE, UNDONE, PAUSED)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_a_rollout_keeps_its_promises(part: int) -> None:
    ends: Counter[str] = Counter()
    for seed in range(part, HISTORIES, PARTS):
        here = world(seed)
        here.edit("good")
        for _ in range(STEPS):
            happen(here)
            observed(here)
        ends[ended(here)] += 1
    assert set(ends) >= {STABLE, UNDONE, PAUSED}, ends


def happen(here: World) -> None:
    """Let something happen, or only time pass."""
    draw = here.random
    here.now += timedelta(seconds=draw.choice([1, 30, 60, 300, 700, 3600]))
    match draw.randint(0, 11):
        case 0:
            here.edit(draw.choice(["good", "bad", "late", "hung"]))
        case 1:
            here.now += timedelta(seconds=draw.choice([-7200, -30, 86400]))
        case 2 | 3:
            host = draw.choice(here.hosts)
            host.silent = not host.silent
        case 4:
            here.rollout = msgspec.structs.replace(here.rollout, paused=not here.rollout.paused)
            here.generation += 1
        case 5:
            here.restart = str(here.now)
        case 6:
            stages_ = draw.choice([["1"], ["1", "50%"], ["2", "3", "4"], ["100%"]])
            here.rollout = msgspec.structs.replace(here.rollout, stages=stages_)
            here.generation += 1
        case 7 if len(here.hosts) > 1:
            here.hosts.remove(draw.choice(here.hosts))
    for host in here.hosts:
        if draw.random() < 0.8:
            here.act(host)


def observed(here: World) -> None:
    """Have the operator look, and hold what it publishes against what is promised."""
    old = here.status or RolloutStatus()
    new = here.look()
    assert RolloutReason(new.reason) in REMEDIES
    assert new.phase == STABLE or new.message
    if same_rollout(old, new):
        assert new.threshold >= old.threshold
        check_size(here, old, new)
    if old.next is not None and new.refused is not None and old.next.digest == new.refused.digest:
        check_return(here, old, new)


def same_rollout(old: RolloutStatus, new: RolloutStatus) -> bool:
    begun = old.started_at == new.started_at
    return old.next is not None and new.next is not None and old.next.digest == new.next.digest and begun


def check_size(here: World, old: RolloutStatus, new: RolloutStatus) -> None:
    """Never more hosts than the stage has, unless all of them are silent but the last."""
    if new.threshold == old.threshold:
        return
    hosts = facts.of_hosts("web", new, [here.node(one) for one in here.hosts])
    moved = stages.moved(new, hosts)
    sizes = stages.sizes(here.rollout, len(hosts), canaries=new.canary is not None)
    awake = [one for one in moved if one.progress is not Progress.ABSENT]
    canaries = sum(one.canary for one in hosts)
    assert len(moved) <= max(sizes[min(new.stage, len(sizes)) - 1], canaries) or len(awake) == 1
    if here.rollout.max_unavailable is not None and len(awake) > 1:
        most = stages.count(here.rollout.max_unavailable, len(hosts))
        fresh = [one for one in awake if one.progress is not Progress.HEALTHY and not one.canary]
        assert len(fresh) <= most


def check_return(here: World, old: RolloutStatus, new: RolloutStatus) -> None:
    """Exactly the hosts that had it return, to what is stable."""
    assert (new.next, new.phase, new.threshold) == (None, UNDOING, 0)
    assert new.stable == old.stable
    for host in here.hosts:
        before = host.ref
        choice = choosing.chosen(here.config_set(), host.meta)
        assert choice.revision == new.stable
        if before is not None and before == new.stable:
            continue  # it did not move, and stays as it is
        assert before is None or before.digest in host.had


def ended(here: World) -> str:
    """Let everybody be there and time pass: it comes to an end."""
    for host in here.hosts:
        host.silent = False
    for _ in range(60):
        here.now += timedelta(minutes=11)
        for host in here.hosts:
            here.act(host)
        before = here.status
        observed(here)
        if here.status == before:
            break
    assert here.status is not None
    waits = here.status.phase == WAITING and here.status.reason == RolloutReason.NO_CANARY
    assert here.status.phase in ENDS or waits, here.status
    if here.status.phase in (STABLE, UNDONE):
        assert {host.ref.digest if host.ref else "" for host in here.hosts} <= {
            here.status.stable.digest if here.status.stable else ""
        }
    return here.status.phase


def test_hosts_are_spread_evenly_and_anew_for_every_change() -> None:
    uids = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(10_000)]
    places = {digest: [choosing.position(uid, digest) for uid in uids] for digest in ("a", "b")}
    for found in places.values():
        assert all(0 <= one < SCALE for one in found)
        tenths = Counter(one * 10 // SCALE for one in found)
        assert all(900 < tenths[tenth] < 1100 for tenth in range(10)), tenths
        for size in (1, 100, 500, 2500):
            hosts = [
                facts.RolloutHost(str(number), one, canary=False, progress=Progress.HEALTHY)
                for number, one in enumerate(found)
            ]
            limit = stages.threshold(hosts, size)
            assert sum(one < limit for one in found) == size
    first = {digest: set(sorted(uids, key=dict(zip(uids, found, strict=True)).get)[:500])  # type: ignore[arg-type]
             for digest, found in places.items()}  # fmt: skip
    assert 5 < len(first["a"] & first["b"]) < 60  # 5 % of 5 %: other hosts go first each time


def test_hosts_at_one_place_do_not_bring_a_stage_above_its_size() -> None:
    hosts = [
        facts.RolloutHost(str(number), place, canary=False, progress=Progress.HEALTHY)
        for number, place in enumerate((5, 9, 9, 20))
    ]
    assert [stages.threshold(hosts, size) for size in (1, 2, 3, 4)] == [6, 9, 10, SCALE]


def test_a_host_that_joins_takes_what_is_proven_and_one_that_waits_keeps_what_it_has() -> None:
    here = world(1)
    here.edit("good")
    here.status = RolloutStatus(
        observed_generation=1,
        started_at="2026-01-01T00:00:00Z",
        stable=RevisionRef(name="old"),
        next=here.current,
        threshold=SCALE,
    )
    meta = here.hosts[0].meta
    assert choosing.chosen(here.config_set(), meta) == (choosing.Content.REVISION, here.current)
    late = msgspec.structs.replace(meta, creation_timestamp="2026-01-01T00:00:01Z")
    assert choosing.chosen(here.config_set(), late) == (choosing.Content.REVISION, RevisionRef(name="old"))
    here.generation += 1  # nobody has decided about that yet
    assert choosing.chosen(here.config_set(), meta) == (choosing.Content.HELD, RevisionRef(name="old"))
    here.status = None
    assert choosing.chosen(here.config_set(), meta) == (choosing.Content.HELD, None)
