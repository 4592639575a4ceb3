"""Random lives of a LINSTOR cluster: what is said of it is so, and what we do to it loses nothing."""

from __future__ import annotations

import contextlib
import random
from itertools import combinations
from typing import Any

import msgspec
import pytest

from nodemanager.api.edge.edgecluster import HEALTHY
from nodemanager.backends.errors import BackendError
from nodemanager.backends.storage.linstor import views
from nodemanager.backends.storage.linstor.views import NodeView, PoolView, ReplicaView
from nodemanager.fleet.edge.storage import judging
from nodemanager.fleet.edge.storage.judging import Wanted
from support import storage_labs, virtual_time
from support.examples import some
from support.linstor import placing, protecting, server, showing, sites, syncing
from support.linstor.codes import Refusal
from support.linstor.server import Fault
from support.linstor.world import Definition, LinstorWorld
from support.storage_labs import LinstorLab

NODES = ("a", "b", "c")


def judged(world: LinstorWorld, copies: int) -> judging.StorageVerdict:
    seen = views.storage(
        msgspec.convert(showing.nodes(world), list[NodeView]),
        msgspec.convert(showing.resources(world, {}), list[ReplicaView]),
        msgspec.convert(showing.pools(world), list[PoolView]),
    )
    return judging.judge(seen, Wanted(copies))


def is_well(world: LinstorWorld, copies: int) -> bool:
    """Whether all is well, as only the world itself knows."""
    if world.now < world.blind_until or any(
        one.connection != "ONLINE" or one.flags for one in world.nodes.values()
    ):
        return False
    return all(
        _volume_is_well(world, what, min(copies, len(world.nodes))) for what in world.definitions.values()
    )


def _volume_is_well(world: LinstorWorld, what: Definition, copies: int) -> bool:
    if not what.replicas:
        return True  # nothing of it is to be seen
    holders = [one for one in what.replicas.values() if one.diskful and not one.flags]
    joined = all(
        showing.connection(world, what, one.node, other.node) == "Connected"
        for one, other in combinations(holders, 2)
    )
    started = all(one.disk for one in what.replicas.values())
    return len(holders) >= copies and all(one.disk == "UpToDate" for one in holders) and joined and started


def happen(world: LinstorWorld, chance: random.Random) -> None:
    """Have something happen, for better or worse."""
    chance.choice([_to_nodes, _to_volumes, _to_links])(world, chance)


def _to_nodes(world: LinstorWorld, chance: random.Random) -> None:
    node = chance.choice(NODES)
    match chance.randrange(6):
        case 0:
            world.silence(node)
        case 1 | 2:
            syncing.come_back(world, node)
        case 3:
            world.restart(chance.choice([1, 20]))
        case 4:
            _try(lambda: protecting.evacuate(world, node, {}))
        case _:
            _try(lambda: protecting.restore_node(world, node, {}))


def _to_volumes(world: LinstorWorld, chance: random.Random) -> None:
    what = world.definitions[chance.choice(list(world.definitions))]
    for one in what.replicas.values():
        if chance.random() < 0.3:
            one.forced = chance.choice(["", "", "", "Failed", "Outdated", "Inconsistent"])
    _try(lambda: placing.autoplace(world, what, {"place_count": chance.randint(1, 3)}))


def _to_links(world: LinstorWorld, chance: random.Random) -> None:
    pair, broken = frozenset(chance.sample(NODES, 2)), chance.random() < 0.4
    what = world.definitions[chance.choice(list(world.definitions))]
    what.standalone = {pair} if broken and chance.random() < 0.5 else set()
    world.speeds = {pair: chance.choice([0.0, 1000.0])} if broken else {}


def _try(act: Any) -> None:
    try:
        act()
    except Refusal:
        return


@pytest.mark.parametrize("seed", range(some(40)))
def test_healthy_is_said_exactly_when_it_is_so(seed: int) -> None:
    chance = random.Random(seed)
    world = sites.cluster(*NODES)
    for number in range(3):
        sites.volume(world, f"vol-{number}", *chance.sample(NODES, 2))
    seen = set()
    for _ in range(40):
        happen(world, chance)
        syncing.advance(world, chance.choice([0, 1, 5, 60]))
        verdict = judged(world, 2)
        assert (verdict.state == HEALTHY) is is_well(world, 2), (verdict, world)
        seen.add(verdict.state)
    assert seen - {HEALTHY}


def _good_copies(what: Definition) -> int:
    return sum(one.disk == "UpToDate" for one in what.holders())


async def act(lab: LinstorLab, chance: random.Random, asked: dict[str, int]) -> None:
    """Ask for something, while things go wrong."""
    name, backend = chance.choice(list(asked)), lab.backend
    if chance.random() < 0.4:
        kind = chance.choice(
            [server.CUT_AFTER, server.HANG_AFTER, server.HANG_BEFORE, server.ERROR, server.PROXY]
        )
        lab.controller.faults = [Fault(kind, chance.choice(["POST", "PUT", "DELETE", "GET"]))]
    match chance.randrange(8):
        case 0 | 1:
            copies = chance.randint(1, 3)
            asked[name] = max(asked[name], copies)
            await backend.place(name, copies)
        case 2 | 3:
            await backend.withdraw(name, chance.choice(NODES))
        case 4:
            await backend.snapshot("s", [name])
        case 5:
            before = await backend.placeable(NODES)
            await backend.freeze(NODES)
            await backend.thaw(before)
        case 6:
            await backend.drop_snapshot(name, "s")
            await backend.sharing(name)
        case _:
            await backend.default_copies("edge", chance.randint(1, 3))


@pytest.mark.parametrize("seed", range(some(25)))
def test_whatever_goes_wrong_no_good_copy_is_lost_and_none_is_made_too_many(seed: int) -> None:
    chance = random.Random(seed)

    async def scenario() -> None:
        world = sites.cluster(*NODES)
        asked = {f"vol-{number}": 1 for number in range(3)}
        for name in asked:
            sites.volume(world, name, "a")
        async with storage_labs.linstor(world) as lab:
            for _ in range(25):
                before = {name: len(what.holders()) for name, what in world.definitions.items()}
                with contextlib.suppress(BackendError):
                    await act(lab, chance, asked)
                lab.controller.faults = []
                for name, what in world.definitions.items():
                    assert _good_copies(what) >= 1, name
                    assert len(what.holders()) <= asked[name], name
                    assert len(what.holders()) >= before[name] - 1, name
                syncing.advance(world, chance.choice([0, 1, 30]))
            assert lab.controller.asked
            storage_labs.harmless(lab.controller)

    virtual_time.run(scenario())
