"""Random fleets, failures, edits and jumps of the clock: what holds for every decision, and that all ends."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.fleet.maintenance import budget, facts
from nodemanager.fleet.maintenance.passes import MaintenanceLook
from nodemanager.fleet.maintenance.progress import HostStage
from nodemanager.fleet.maintenance.reasons import REMEDIES
from nodemanager.fleet.simulation.engine import Engine
from nodemanager.fleet.simulation.world import SimMaintenance
from nodemanager.fleet.windows.calendar import Calendar
from support import examples, fleets

FLEETS = examples.some(65)
CHUNKS = 4
"""Parts that run side by side. With NODEMANAGER_TEST_EXAMPLES=4 there are more than a thousand fleets."""


class Judge:
    """Looks at every decision before it is acted on."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.stopped: dict[str, bool] = {}
        engine.watch = self

    def __call__(self, one: SimMaintenance, look: MaintenanceLook) -> None:
        decision = look.decision
        if decision is None:
            return
        self.stopped[one.name] = bool(decision.stops)
        waiting = {wait.host for wait in decision.waits}
        starting = {start.host for start in decision.starts}
        left = {name for name, progress in decision.progress.items() if not progress.is_end}
        assert waiting | starting == left, "every host begins, waits with a code, or has ended"
        assert not waiting & starting
        assert all(REMEDIES[wait.reason] for wait in decision.waits)
        if starting:
            self.may_start(one, look, starting)

    def may_start(self, one: SimMaintenance, look: MaintenanceLook, starting: set[str]) -> None:
        engine, decision = self.engine, look.decision
        assert decision is not None
        opened = Calendar(one.calendar.spec).opened(engine.now)
        assert opened is not None, "nothing begins outside of the window"
        assert not one.spec.paused
        assert not decision.stops
        members = {host for group in engine.groups(one) for host in group.hosts}
        assert starting <= members
        known = {name: engine.hosts[name].facts(engine.now) for name in members}
        away = {name for name, host in known.items() if facts.unavailable(host) is not None}
        assert not starting & away
        after = away | starting
        most = one.spec.budget
        assert most is not None
        assert len(after) <= (budget.resolve(most.max_unavailable, len(members)) or 1)
        for group in engine.groups(one):
            limit = budget.resolve(most.per_group, len(group.hosts))
            if limit is not None and starting & set(group.hosts):
                assert len(after & set(group.hosts)) <= limit
        if most.per_zone is not None:
            self.zones(one, starting, after, members)
        running = sum(progress.stage is HostStage.RUNNING for progress in decision.progress.values())
        assert one.spec.parallelism is None or running + len(starting) <= one.spec.parallelism

    def zones(self, one: SimMaintenance, starting: set[str], after: set[str], members: set[str]) -> None:
        assert one.spec.budget is not None
        rule = one.spec.budget.per_zone
        assert rule is not None
        zone = {name: self.engine.hosts[name].labels.get(rule.label, "") for name in members}
        for name in starting:
            size = sum(other == zone[name] for other in zone.values())
            limit = budget.resolve(rule.max_unavailable, size)
            assert limit is None or sum(zone[other] == zone[name] for other in after) <= limit
        working = {zone[name] for name in members if self.engine.hosts[name].works} | {
            zone[name] for name in starting
        }
        assert rule.max_zones is None or len(working) <= rule.max_zones or not starting


def disturb(engine: Engine, rng: random.Random, number: int) -> None:
    """Do something that somebody might do meanwhile."""
    one = rng.choice(engine.maintenances)
    names = sorted(engine.hosts)
    host = engine.hosts[rng.choice(names)] if names else None
    change = rng.choice(
        (
            "pause",
            "budget",
            "silence",
            "cordon",
            "hold",
            "relabel",
            "delete",
            "anew",
            "join",
            "jump",
            "back",
            "retry",
        )
    )
    if change == "pause":
        one.spec = msgspec.structs.replace(one.spec, paused=not one.spec.paused)
    elif change == "budget":
        one.spec = msgspec.convert({**msgspec.to_builtins(one.spec), "stopAfter": 2}, type(one.spec))
    elif change == "join":
        engine.hosts[f"host-{900 + number}"] = fleets.host(900 + number, rng, engine.now)
    elif change == "jump":
        engine.now += timedelta(hours=rng.randint(1, 30))
    elif change == "back":
        engine.now -= timedelta(minutes=rng.randint(1, 120))
    elif change == "retry" and one.run is not None:
        one.run = replace(one.run, retried_at=engine.now)
    elif host is not None:
        _disturb_host(engine, host.name, change, rng)
    engine.changed()


def _disturb_host(engine: Engine, name: str, change: str, rng: random.Random) -> None:
    host = engine.hosts[name]
    if change == "silence":
        host.silent_until = engine.now + timedelta(minutes=rng.randint(1, 600))
    elif change == "cordon":
        host.cordoned_by = "" if host.cordoned_by == "others" else host.cordoned_by or "others"
    elif change == "hold":
        host.held = not host.held
    elif change == "relabel":
        host.labels = {
            **host.labels,
            "zone": rng.choice(fleets.ZONES),
            "role": rng.choice(("web", "control")),
        }
    elif change == "delete":
        del engine.hosts[name]
    elif change == "anew":
        engine.hosts[name] = fleets.host(int(name[5:]), rng, engine.now)


def come_to_rest(engine: Engine, judge: Judge) -> None:
    """Let nothing go wrong any more, and nothing new come; somebody has stopped runs go on."""
    engine.dice.behaviour.failures = 0
    for one in engine.maintenances:
        quiet = [msgspec.structs.replace(operation, suspend=True) for operation in one.spec.operations]
        one.spec = msgspec.structs.replace(one.spec, paused=False, operations=quiet)
    engine.changed()
    for _ in range(12):
        engine.run_until(engine.now + timedelta(days=16))
        running = [one for one in engine.maintenances if one.run is not None]
        if not running:
            break
        for one in running:
            assert one.run is not None
            assert judge.stopped[one.name], "only somebody who has to decide keeps a run from ending"
            one.run = replace(one.run, retried_at=engine.now)
        engine.changed()


def roll_out(engine: Engine, rng: random.Random) -> None:
    """Have some hosts be on their way to a change of a ConfigSet for a while."""
    for host in engine.hosts.values():
        if rng.random() < 0.2:
            host.changing_until = engine.now + timedelta(minutes=rng.randint(1, 300))
    engine.changed()


def play(seed: int, *, changes: bool = True) -> None:
    """Have a fleet live, and come to rest."""
    rng, others = random.Random(seed), random.Random(f"changes {seed}")
    engine = fleets.engine(rng)
    judge = Judge(engine)
    for number in range(rng.randint(0, 8)):
        engine.run_until(engine.now + timedelta(minutes=rng.randint(1, 600)))
        disturb(engine, rng, number)
        if changes and others.random() < 0.4:
            roll_out(engine, others)
    come_to_rest(engine, judge)
    assert not any(host.works for host in engine.hosts.values()), "no host is left in work"
    assert not any(one.run for one in engine.maintenances), "no run goes on for ever"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_claim_5_whatever_happens_the_ceiling_holds_and_everything_ends(chunk: int) -> None:
    @settings(max_examples=FLEETS, deadline=None, database=None)
    @given(st.integers(min_value=0, max_value=2**48).map(lambda seed: seed * CHUNKS + chunk))
    def fleet(seed: int) -> None:
        play(seed)

    fleet()


@pytest.mark.parametrize("seed", [178516, 6402], ids=["all canaries gone", "two zones busy since a relabel"])
def test_fleets_that_went_wrong_once(seed: int) -> None:
    play(seed, changes=False)  # it was before these counted
