"""A thousand random histories of a site with faults: its phase is no better than the truth, and no worse."""

from __future__ import annotations

import random
from datetime import timedelta

import msgspec
import pytest

from nodemanager.api.edge.edgecluster import (
    BOOTSTRAP,
    PHASES,
    SINGLE_NODE,
    UNKNOWN,
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
)
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.fleet.edge import deciding
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import AgentFacts
from support import edge_profiles
from support.edge_world import JUMPS, EdgeWorld, Troubles
from support.examples import some

PROFILE = edge_profiles.typed(edge_profiles.shipped("vx-rail"))
FORGET = timedelta(minutes=1)
FORGETFUL = edge_profiles.typed(edge_profiles.shipped("vx-rail", "", {"thresholds": {"forgetNodes": "1m"}}))
SEQUENCES, STEPS = some(1000), 30
CALM = 12
"""So many of these in which nothing goes wrong any more."""
BATCHES = 10


def look(
    world: EdgeWorld,
    before: EdgeClusterStatus,
    offset: timedelta = timedelta(0),
    profile: EdgeProfile | None = PROFILE,
) -> EdgeClusterStatus:
    """Look at the world by a clock; what is known from before is what the API kept of it."""
    kept = msgspec.json.decode(msgspec.json.encode(before), type=EdgeClusterStatus)
    cluster = EdgeCluster(spec=EdgeClusterSpec(profile="vx-rail"), status=kept)
    site = Site(cluster, profile, AgentFacts(), world.facts())
    return deciding.decide(site, world.now + offset)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_never_better_than_the_truth_nor_worse_for_long(batch: int) -> None:
    seen: set[str] = set()
    proven = 0
    for number in range(SEQUENCES // BATCHES):
        seed = batch * SEQUENCES + number
        chance = random.Random(seed)
        world, status, told, furthest = EdgeWorld(), EdgeClusterStatus(), list[str](), 1
        offset, troubles = timedelta(0), Troubles(FORGET)
        for step in range(STEPS):
            calm = step >= STEPS - CALM
            if calm:
                world.calm_down(chance)
            else:
                for _ in range(chance.choice([0, 0, 1, 1, 2])):
                    world.mishap(chance)
            world.pass_time(chance.choice([10, 11, 25, 80] if calm else [10, 10, 11, 25, 89, 400]))
            jump = timedelta(0) if calm else timedelta(seconds=chance.choice(JUMPS))
            offset += jump
            lapsed = not calm and chance.random() < 0.05
            was, status = status, look(world, status, offset, None if lapsed else FORGETFUL)
            told.append(status.phase)
            if world.state_text is None and not world.state_answer and not lapsed:
                furthest = 1 if world.number == 1 else max(furthest, world.number)
            true = {UNKNOWN} if lapsed else world.truth(furthest, offset)
            allowed = troubles.allowed(world, true, disturbed=lapsed or bool(jump))
            assert status.phase in allowed, (seed, told, status.message, world, offset)
            proven += not troubles.excused(world)
            assert not world.lies(status), (seed, told, world.lies(status), world)
            assert status.phase != BOOTSTRAP or not was.bootstrapped, (seed, told)
            seen.add(status.phase)
    assert seen == set(PHASES), "a phase that never comes is not tested"
    assert proven > SEQUENCES // BATCHES, "looks at which no false alarm would be excused"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_when_all_is_well_again_it_says_so(batch: int) -> None:
    for number in range(SEQUENCES // BATCHES // 10):
        seed = 1_000_000 + batch * SEQUENCES + number
        chance = random.Random(seed)
        world, status = EdgeWorld(), EdgeClusterStatus()
        for _ in range(STEPS):
            world.mishap(chance)
            world.pass_time(chance.choice([10, 25, 400]))
            status = look(world, status)
        well = EdgeWorld(now=world.now)
        wanted = well.nodes = {"a": well.nodes["a"]}
        phases = []
        for _ in range(12):  # gone nodes are told of for an hour
            well.pass_time(400)
            look_at = look(well, status)
            well.pass_time(10)
            status = look(well, look_at)
            phases.append(status.phase)
        assert phases[-1] == SINGLE_NODE, (seed, phases, status.message)
        assert [one.name for one in status.nodes] == list(wanted)
