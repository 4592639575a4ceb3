"""The backups of a host: bounded in all and for each user, holes kept, the oldest gone first, and told."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.host.files.bucket import Bucket, BucketError, BucketLimits
from nodemanager.host.files.bucket_room import BLOCK, Caps, Holding, choose
from nodemanager.host.files.durable import Unsynced
from nodemanager.host.files.tree import Tree
from support.root_tree import needs_root

pytestmark = needs_root
EVE = 1000
MIB = 1024 * 1024
FOLDER = "/var/lib/nodemanager/filebucket"


class Kept:
    """A bucket on a clock of its own."""

    def __init__(self, root: Path, caps: Caps) -> None:
        self.root, self.now = root, 1_700_000_000.0
        self.tree = Tree(str(root))
        self.bucket = Bucket(self.tree, FOLDER, BucketLimits(caps=caps), self._tick)

    def _tick(self) -> float:
        self.now += 1
        return self.now

    def keep(self, name: str, data: bytes, owner: int = 0) -> bool:
        """Back a file up; tell whether that was done."""
        path = self.root / name
        path.write_bytes(data)
        os.chown(path, owner, owner)
        return self.keep_file(name)

    def keep_file(self, name: str) -> bool:
        unsynced = Unsynced()
        try:
            return self.bucket.keep(self.tree.place(f"/{name}"), unsynced) is not None
        finally:
            unsynced.close()
            self.tree.forget()

    def names(self) -> list[str]:
        return sorted(one.meta.path for one in self.bucket.backups())

    def on_disk(self) -> int:
        found = (self.root / FOLDER.lstrip("/")).rglob("*")
        return sum(one.lstat().st_blocks * 512 for one in found if one.is_file())


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path, Caps(total=4 * MIB, user=MIB))
    yield made
    made.tree.close()


def test_sparse_files_of_a_user_stay_few_and_sparse(kept: Kept) -> None:
    """A thousand of these were sixteen gigabytes."""
    for number in range(20):
        path = kept.root / f"s{number:02}"
        with path.open("wb") as file:
            file.truncate(MIB // 4 - number)
            file.seek(number * 4096)
            file.write(b"x")
        os.chown(path, EVE, EVE)
        assert kept.keep_file(path.name)
    names = kept.names()
    assert len(names) <= 4
    assert kept.on_disk() <= len(names) * 3 * BLOCK
    backup = kept.bucket.find("/s19")
    assert hashlib.sha256((kept.root / "s19").read_bytes()).hexdigest() == backup.digest
    assert kept.bucket.read(backup) == (kept.root / "s19").read_bytes()


def test_a_user_pushes_out_her_own_backups_and_no_others(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    kept.keep("precious", os.urandom(2 * MIB))
    for number in range(30):
        assert kept.keep(f"f{number:02}", os.urandom(200_000), EVE)
    assert kept.on_disk() < 3.3 * MIB
    names = kept.names()
    assert "/precious" in names
    assert "/f29" in names
    assert "/f00" not in names
    assert "oldest backups" in caplog.text
    assert "user 1000" in caplog.text


def test_root_pushes_out_users_first_and_then_the_oldest(kept: Kept) -> None:
    kept.keep("hers", os.urandom(900_000), EVE)
    for number in range(6):
        kept.keep(f"r{number}", os.urandom(MIB))
    assert kept.names() == ["/r3", "/r4", "/r5"]
    assert kept.on_disk() <= 4 * MIB
    with pytest.raises(BucketError, match="there is no backup of it"):
        kept.bucket.find("/hers")


def test_what_is_too_large_for_all_room_is_not_kept_and_that_is_told(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    kept.keep("old", b"old", EVE)
    assert not kept.keep("big", os.urandom(2 * MIB), EVE)
    assert "no backup of /big" in caplog.text
    assert kept.names() == ["/old"]


def test_another_agent_counts_what_is_there(kept: Kept) -> None:
    for number in range(4):
        kept.keep(f"f{number}", os.urandom(200_000), EVE)
    after_restart = Kept(kept.root, Caps(total=4 * MIB, user=MIB))
    after_restart.now = kept.now
    for number in range(4, 8):
        after_restart.keep(f"f{number}", os.urandom(200_000), EVE)
    assert after_restart.on_disk() <= MIB
    assert "/f7" in after_restart.names()
    after_restart.tree.close()


def test_equal_content_of_two_paths_goes_when_the_last_of_them_goes(kept: Kept) -> None:
    same = os.urandom(300_000)
    kept.keep("a", same, EVE)
    kept.keep("b", same)
    for number in range(5):
        kept.keep(f"f{number}", os.urandom(300_000), EVE)
    assert "/a" not in kept.names()
    assert kept.bucket.read(kept.bucket.find("/b")) == same


HOLDINGS = st.lists(
    st.builds(
        Holding,
        st.sampled_from([0, EVE, 1001]),
        st.integers(0, 50).map(str),
        st.integers(1, 40),
        st.tuples(st.text("abcdef", min_size=8, max_size=8), st.just("")),
    ),
    unique_by=lambda one: one.name,
)


@given(HOLDINGS, st.sampled_from([0, EVE]), st.integers(1, 50))
def test_what_goes_makes_room_and_is_never_of_root_for_a_user(
    holdings: list[Holding], owner: int, size: int
) -> None:
    caps = Caps(total=400, user=50)
    going = choose(holdings, owner, size, caps)
    left = [one for one in holdings if one not in going]
    assert sum(one.size for one in left) + size <= caps.total
    if owner:
        assert sum(one.size for one in left if one.owner == owner) + size <= caps.user
    if any(one.owner == 0 for one in going):
        assert all(one.owner == 0 for one in left)
    for gone in going:
        assert not any(one.since < gone.since for one in left if one.owner == gone.owner)


def test_a_fight_over_one_file_costs_no_other_backup(kept: Kept) -> None:
    for number in range(20):
        kept.keep("other", b"precious", EVE)
        kept.keep("contested", bytes([number % 2]) * 300_000, EVE)
    assert kept.names() == ["/contested", "/contested", "/other"]
