"""LINSTOR over a real DRBD, whose words were recorded in the lab: what our backend says at every moment."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
import yaml

from nodemanager.backends.errors import Premature
from nodemanager.fleet.edge.storage import judging
from nodemanager.fleet.edge.storage.judging import Wanted
from support import cases, storage_labs
from support.linstor import drbd_feed, drbd_moments, sites
from support.linstor.drbd_moments import MOMENTS
from support.linstor.world import LinstorWorld
from support.storage_labs import LinstorLab

FOLDER = cases.FOLDER / "edge" / "drbd84_lab"
RECORDED = sorted({path.name.partition(".")[0] for path in FOLDER.glob("*.yaml")})


def said(moment: str) -> LinstorWorld:
    """Return a site whose two hosts said this."""
    world = sites.cluster("node0", "node1")
    sites.volume(world, "r0", "node0", "node1", size=12288)
    for here, there in (("node0", "node1"), ("node1", "node0")):
        words = yaml.safe_load((FOLDER / f"{moment}.{here}.yaml").read_text())
        drbd_feed.feed(world, here, words["names"], peer=there)
    return world


@contextlib.asynccontextmanager
async def at(moment: str) -> AsyncIterator[LinstorLab]:
    async with storage_labs.linstor(said(moment)) as lab:
        yield lab


def test_every_moment_that_was_recorded_is_in_the_table() -> None:
    assert sorted(MOMENTS) == RECORDED


@pytest.mark.parametrize("moment", RECORDED)
async def test_what_is_said_of_the_storage(moment: str) -> None:
    async with at(moment) as lab:
        verdict = judging.judge(await lab.backend.observe(), Wanted(copies=2))
    assert drbd_moments.differences(moment, verdict) == []


@pytest.mark.parametrize("moment", RECORDED)
async def test_no_copy_is_deleted_that_may_have_what_the_other_one_has_not(moment: str) -> None:
    async with at(moment) as lab:
        if MOMENTS[moment].removable:
            assert (await lab.backend.withdraw("r0", "node1")).changed
        else:
            with pytest.raises(Premature, match="no other copy is known to be UpToDate"):
                await lab.backend.withdraw("r0", "node1")


@pytest.mark.parametrize("moment", ["new", "syncing", "paused_by_node0", "disconnected", "split_brain"])
async def test_the_copy_with_the_data_stays_for_as_long_as_it_is_alone_with_it(moment: str) -> None:
    async with at(moment) as lab:
        with pytest.raises(Premature):
            await lab.backend.withdraw("r0", "node0")


async def test_of_a_resource_that_is_down_nothing_is_known() -> None:
    world = said("established")
    drbd_feed.feed(world, "node1", "# No currently configured DRBD found.\n", peer="node0")
    async with storage_labs.linstor(world) as lab:
        verdict = judging.judge(await lab.backend.observe(), Wanted(copies=2))
    assert verdict.unknown == ("r0: the state of the replica on node1 is not known",)
