"""Whether volumes have a quorum, as a LINSTOR controller tells: where there could be one, it is missed."""

from __future__ import annotations

from nodemanager.fleet.edge.storage import judging
from nodemanager.fleet.edge.storage.facts import DefinedVolume
from nodemanager.fleet.edge.storage.judging import Wanted
from support import storage_labs, virtual_time
from support.linstor import placing, sites
from support.linstor.world import LinstorWorld


def look(world: LinstorWorld) -> tuple[tuple[DefinedVolume, ...], tuple[str, ...]]:
    """Look through the API of the controller; return what shall be there, and what is wrong."""

    async def once() -> tuple[tuple[DefinedVolume, ...], tuple[str, ...]]:
        async with storage_labs.linstor(world) as lab:
            seen = await lab.backend.observe()
        return seen.defined, judging.judge(seen, Wanted(2)).faults

    return virtual_time.run(once())


def test_two_nodes_cannot_have_one_and_lack_none() -> None:
    world = sites.cluster("a", "b")
    sites.volume(world, "v", "a", "b")
    assert look(world) == ((DefinedVolume("v", quorum=False),), ())


def test_a_third_node_breaks_ties() -> None:
    world = sites.cluster("a", "b", "c")
    sites.volume(world, "v", "a", "b")
    assert look(world) == ((DefinedVolume("v", quorum=True),), ())


def test_where_nobody_breaks_ties_though_there_is_a_third_node_it_is_said() -> None:
    world = sites.cluster("a", "b", "c")
    world.props[placing.TIE] = "false"
    sites.volume(world, "v", "a", "b")
    defined, faults = look(world)
    assert defined == (DefinedVolume("v", quorum=False),)
    assert faults == ("v: its quorum is off, and two sides that lose each other may both write",)


def test_of_what_nobody_says_nothing_follows() -> None:
    world = sites.cluster("a", "b", "c")
    sites.volume(world, "v", "a", "b", "c").props.pop(placing.QUORUM)
    assert look(world) == ((DefinedVolume("v"),), ())
