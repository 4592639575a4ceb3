"""What every storage backend has to do, whatever it is: a class of tests, to be inherited with a `lab`.

    class TestMine(StorageContract):
        @pytest.fixture
        async def lab(self) -> AsyncIterator[StorageLab]:
            yield MyLab()

The lab is a site with two nodes, a and b, and the volumes vol-1 and vol-2, all of it well.
"""

from __future__ import annotations

from typing import Protocol

import pytest

from nodemanager.api.edge import capabilities
from nodemanager.api.edge.edgecluster import HEALTHY
from nodemanager.backends.declaring import lacks
from nodemanager.backends.errors import BackendError, NoSuchThing, Undecided
from nodemanager.backends.storage import seam
from nodemanager.backends.storage.seam import (
    Cloning,
    Replicating,
    SharedAccess,
    Snapshotting,
    StorageBackend,
    StorageChange,
)
from nodemanager.fleet.edge.storage import judging
from nodemanager.fleet.edge.storage.judging import StorageVerdict, Wanted

VOLUMES = ("vol-1", "vol-2")
NODES = ("a", "b")


class StorageLab(Protocol):
    """A site that a test can do something to."""

    good: str
    """What a backend of this kind says of a site that is well: that, or that it does not see it."""

    @property
    def backend(self) -> StorageBackend:
        """What is held to the contract."""

    def settle(self) -> None:
        """Let everything come to rest that was begun."""

    def silence(self, node: str) -> None:
        """Have a node be away, or what it keeps be lost."""

    def vanish(self) -> None:
        """Have the backend answer nobody any more."""

    def lose_next_answer(self) -> None:
        """Have the next change be made, and nobody be told; for backends that change something."""

    def written(self) -> int:
        """Return how many changes were made."""


async def verdict(lab: StorageLab, copies: int = 1) -> StorageVerdict:
    return judging.judge(await lab.backend.observe(), Wanted(copies))


class StorageContract:
    """The tests. A capability that is not declared is asked for once, and has to be refused."""

    async def test_it_has_what_it_declares_and_nothing_else(self, lab: StorageLab) -> None:
        backend = lab.backend
        assert isinstance(backend, StorageBackend)
        for word, protocol in seam.PROTOCOLS.items():
            assert isinstance(backend, protocol) is (word in backend.capabilities), word
        assert backend.capabilities <= set(seam.PROTOCOLS)

    async def test_it_declares_no_more_than_profiles_may_count_on(self, lab: StorageLab) -> None:
        table = capabilities.STORAGE.choices.get(lab.backend.name)
        assert table is None or lab.backend.capabilities <= table

    async def test_what_it_does_not_declare_is_refused_by_name(self, lab: StorageLab) -> None:
        for word in set(seam.PROTOCOLS) - lab.backend.capabilities:
            said = str(lacks(lab.backend, capabilities.STORAGE, word))
            assert said.startswith(f"cannot use {word}: {lab.backend.name} has none")
            assert "spec.storage.backend" in said

    async def test_a_site_that_is_well_is_said_to_be_so_or_not_to_be_seen(self, lab: StorageLab) -> None:
        found = await verdict(lab)
        assert (found.state, found.faults, found.unknown) == (lab.good, (), ())
        assert found.summary

    async def test_looking_changes_nothing(self, lab: StorageLab) -> None:
        before = lab.written()
        assert await lab.backend.observe() == await lab.backend.observe()
        assert lab.written() == before

    async def test_who_is_silent_is_never_well(self, lab: StorageLab) -> None:
        lab.silence("b")
        found = await verdict(lab)
        assert found.state != HEALTHY
        assert found.faults or found.unknown

    async def test_no_answer_is_an_error_and_not_an_empty_site(self, lab: StorageLab) -> None:
        lab.vanish()
        with pytest.raises(BackendError, match=r"\w"):
            await lab.backend.observe()

    # Snapshots

    async def test_a_snapshot_is_ready_later_and_asking_twice_is_no_error(self, lab: StorageLab) -> None:
        if not isinstance(lab.backend, Snapshotting):
            return
        assert (await lab.backend.snapshot("s", VOLUMES)).changed
        assert await lab.backend.snapshot("s", VOLUMES) == StorageChange(changed=False)
        lab.settle()
        found = await lab.backend.snapshots(VOLUMES)
        assert sorted((one.resource, one.name, one.state) for one in found) == [
            (one, "s", seam.READY) for one in VOLUMES
        ]
        assert [one.resource for one in await lab.backend.snapshots(["vol-2"])] == ["vol-2"]
        assert (await lab.backend.drop_snapshot("vol-1", "s")).changed
        lab.settle()
        assert not (await lab.backend.drop_snapshot("vol-1", "s")).changed
        assert [one.resource for one in await lab.backend.snapshots()] == ["vol-2"]

    async def test_a_snapshot_of_nothing_is_refused(self, lab: StorageLab) -> None:
        if isinstance(lab.backend, Snapshotting):
            with pytest.raises(NoSuchThing):
                await lab.backend.snapshot("s", ["vol-none"])

    async def test_a_lost_answer_is_undecided_and_the_repetition_finds_it_done(self, lab: StorageLab) -> None:
        if not isinstance(lab.backend, Snapshotting):
            return
        lab.lose_next_answer()
        with pytest.raises(Undecided):
            await lab.backend.snapshot("s", VOLUMES)
        assert not (await lab.backend.snapshot("s", VOLUMES)).changed
        lab.settle()
        assert len(await lab.backend.snapshots()) == 2

    # Copies on other nodes

    async def test_a_copy_is_placed_once_and_the_site_is_not_well_until_it_is_whole(
        self, lab: StorageLab
    ) -> None:
        if not isinstance(lab.backend, Replicating):
            return
        assert (await verdict(lab, copies=2)).state != HEALTHY
        for name in VOLUMES:
            assert (await lab.backend.place(name, 2, ["b"])).changed
            assert not (await lab.backend.place(name, 2, ["b"])).changed
            assert (await verdict(lab, copies=2)).state != HEALTHY
        lab.settle()
        assert (await verdict(lab, copies=2)).state == HEALTHY

    async def test_asking_for_fewer_copies_removes_none(self, lab: StorageLab) -> None:
        if isinstance(lab.backend, Replicating):
            await lab.backend.place("vol-1", 2)
            lab.settle()
            assert not (await lab.backend.place("vol-1", 1)).changed
            assert len((await lab.backend.observe()).diskful("vol-1")) == 2

    async def test_the_last_good_copy_cannot_be_withdrawn(self, lab: StorageLab) -> None:
        if not isinstance(lab.backend, Replicating):
            return
        with pytest.raises(BackendError):
            await lab.backend.withdraw("vol-1", "a")
        await lab.backend.place("vol-1", 2)
        with pytest.raises(BackendError):  # the other one has not got everything yet
            await lab.backend.withdraw("vol-1", "a")
        lab.settle()
        assert (await lab.backend.withdraw("vol-1", "a")).changed
        assert not (await lab.backend.withdraw("vol-1", "a")).changed
        assert [one.node for one in (await lab.backend.observe()).diskful("vol-1")] == ["b"]

    async def test_nodes_that_are_frozen_get_no_copy_and_are_as_before_then(self, lab: StorageLab) -> None:
        if not isinstance(lab.backend, Replicating):
            return
        before = await lab.backend.placeable(["b"])
        assert (await lab.backend.freeze(["b"])).changed
        assert not (await lab.backend.freeze(["b"])).changed
        with pytest.raises(BackendError):
            await lab.backend.place("vol-1", 2)
        await lab.backend.thaw(before)
        assert await lab.backend.placeable(["b"]) == before
        assert (await lab.backend.place("vol-1", 2)).changed

    # Clones, and use by two nodes

    async def test_a_clone_is_ready_later_and_asking_twice_is_no_error(self, lab: StorageLab) -> None:
        if not isinstance(lab.backend, Cloning):
            return
        assert (await lab.backend.clone("vol-1", "vol-9")).changed
        assert not (await lab.backend.clone("vol-1", "vol-9")).changed
        assert await lab.backend.clone_state("vol-1", "vol-9") == seam.TAKING
        lab.settle()
        assert await lab.backend.clone_state("vol-1", "vol-9") == seam.READY
        with pytest.raises(NoSuchThing):
            await lab.backend.clone("vol-none", "vol-8")

    async def test_sharing_is_told_with_the_reason(self, lab: StorageLab) -> None:
        if isinstance(lab.backend, SharedAccess):
            found = await lab.backend.sharing("vol-1")
            assert found.able is (found.why_not == "")
            with pytest.raises(NoSuchThing):
                await lab.backend.sharing("vol-none")
