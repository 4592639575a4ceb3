"""Backups: consistent while others write, proven before they replace anything, and safe to put back."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from nodemanager.store import backup, files
from nodemanager.store.base import Compacted, StoreCorrupt, StoreError
from nodemanager.store.sqlite import SqliteStore
from support.stores import FAST, contents, file_names, opened


async def filled(folder: Path, count: int = 10) -> dict[str, tuple[bytes, int, int]]:
    async with opened(folder) as store:
        for n in range(count):
            await store.create(f"/a/{n}", bytes(100))
        return contents(store)


async def read(path: Path) -> dict[str, tuple[bytes, int, int]]:
    store = await SqliteStore.open(path, FAST)
    await store.close()
    return contents(store)


def spoil(path: Path) -> None:
    """Change a value behind the back of its digest."""
    with contextlib.closing(files.connect(path)) as connection:
        connection.execute("UPDATE objects SET value = x'00' WHERE created = 2")


class TestBackup:
    async def test_a_backup_is_the_store_and_for_its_owner_only(self, tmp_path: Path) -> None:
        before = await filled(tmp_path)
        target = tmp_path / "copy.db"
        summary = backup.backup(tmp_path / "store.db", target)
        assert (summary.revision, summary.objects) == (11, 10)
        assert backup.verify(target) == summary
        assert target.stat().st_mode & 0o777 == 0o600
        assert await read(target) == before

    async def test_a_backup_under_writes_is_one_moment_of_the_store(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as store:
            record = await store.create("/a/counter", b"0")
            stop = asyncio.Event()

            async def write() -> None:
                nonlocal record
                while not stop.is_set():
                    await asyncio.gather(
                        store.create(f"/b/{record.revision}", b""),
                        store.update("/a/counter", bytes(record.revision), record.revision),
                    )
                    record = store.list("/a/").records[0]

            writing = asyncio.ensure_future(write())
            taken = []
            for n in range(5):
                at_least = store.revision
                target = tmp_path / f"copy{n}.db"
                summary = await asyncio.to_thread(backup.backup, tmp_path / "store.db", target)
                assert summary.revision >= at_least
                taken.append((target, summary))
            stop.set()
            await writing
            for target, summary in taken:
                expected = store.list("/", revision=summary.revision).records
                assert await read(target) == {r.key: (r.value, r.created, r.revision) for r in expected}
        assert taken[0][1].revision < taken[-1][1].revision

    async def test_a_good_backup_is_not_replaced_by_a_bad_one(self, tmp_path: Path) -> None:
        await filled(tmp_path)
        target = tmp_path / "copy.db"
        backup.backup(tmp_path / "store.db", target)
        good = target.read_bytes()
        spoil(tmp_path / "store.db")
        with pytest.raises(StoreCorrupt, match=r"cannot copy .*store\.db: the copy is damaged"):
            backup.backup(tmp_path / "store.db", target)
        (tmp_path / "store.db").write_bytes(b"no database")
        with pytest.raises(StoreError, match=r"cannot back up .*: file is not a database"):
            backup.backup(tmp_path / "store.db", target)
        assert target.read_bytes() == good
        assert file_names(tmp_path) == ["copy.db", "store.db", "store.db.lock"]

    async def test_what_cannot_be_backed_up(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        with pytest.raises(StoreError, match="there is no such file"):
            backup.backup(path, tmp_path / "copy.db")
        await filled(tmp_path)
        with pytest.raises(StoreError, match="the backup would overwrite it"):
            backup.backup(path, path)
        with pytest.raises(StoreError, match=r"cannot back up .*No such file or directory"):
            backup.backup(path, tmp_path / "none" / "copy.db")
        assert len(await read(path)) == 10


class TestVerify:
    async def test_what_is_no_backup(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="there is no such file"):
            backup.verify(tmp_path / "copy.db")
        (tmp_path / "copy.db").write_bytes(b"no database")
        with pytest.raises(StoreCorrupt, match=r"cannot use .*copy\.db as a backup"):
            backup.verify(tmp_path / "copy.db")

    async def test_a_store_in_use_is_no_backup(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as store:
            await store.create("/a/x", b"")
            with pytest.raises(StoreCorrupt, match="it is a store in use; back it up first"):
                backup.verify(tmp_path / "store.db")

    async def test_verifying_leaves_no_trace(self, tmp_path: Path) -> None:
        await filled(tmp_path)
        before = (tmp_path / "store.db").read_bytes()
        assert backup.verify(tmp_path / "store.db").objects == 10
        assert (tmp_path / "store.db").read_bytes() == before
        assert file_names(tmp_path) == ["store.db", "store.db.lock"]


class TestRestore:
    async def test_a_restored_store_has_the_objects_and_no_past(self, tmp_path: Path) -> None:
        path, copy = tmp_path / "store.db", tmp_path / "copy.db"
        before = await filled(tmp_path)
        backup.backup(path, copy)
        async with opened(tmp_path) as store:
            await store.create("/b/later", b"")
            later, last = contents(store), store.revision
        aside = backup.restore(copy, path)
        async with opened(tmp_path) as store:
            assert contents(store) == before
            assert store.revision == store.compacted == last + backup.BUMP
            with pytest.raises(Compacted):
                store.watch("/", last)
            assert (await store.create("/b/new", b"")).revision == last + backup.BUMP + 1
        assert aside is not None
        assert await read(aside) == later
        assert path.stat().st_mode & 0o777 == 0o600

    async def test_restoring_where_nothing_was(self, tmp_path: Path) -> None:
        before = await filled(tmp_path)
        assert backup.restore(tmp_path / "store.db", tmp_path / "other.db") is None
        assert await read(tmp_path / "other.db") == before

    async def test_a_damaged_store_is_replaced_and_kept(self, tmp_path: Path) -> None:
        path, copy = tmp_path / "store.db", tmp_path / "copy.db"
        before = await filled(tmp_path)
        backup.backup(path, copy)
        path.write_bytes(b"no database")
        (tmp_path / "store.db-wal").write_bytes(b"no log")
        aside = backup.restore(copy, path)
        assert await read(path) == before
        assert aside is not None
        assert aside.read_bytes() == b"no database"

    async def test_an_open_store_is_not_replaced(self, tmp_path: Path) -> None:
        await filled(tmp_path)
        copy = tmp_path / "copy.db"
        backup.backup(tmp_path / "store.db", copy)
        async with opened(tmp_path) as store:
            with pytest.raises(StoreError, match="another process has it open"):
                backup.restore(copy, tmp_path / "store.db")
            await store.create("/b/x", b"")
        assert len(await read(tmp_path / "store.db")) == 11

    async def test_a_bad_backup_replaces_nothing(self, tmp_path: Path) -> None:
        before = await filled(tmp_path)
        copy = tmp_path / "copy.db"
        backup.backup(tmp_path / "store.db", copy)
        spoil(copy)
        with pytest.raises(StoreCorrupt):
            backup.restore(copy, tmp_path / "store.db")
        with pytest.raises(StoreError, match="it is the backup itself"):
            backup.restore(tmp_path / "store.db", tmp_path / "store.db")
        assert await read(tmp_path / "store.db") == before

    async def test_an_interrupted_restore_is_noticed_and_can_be_repeated(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, copy = tmp_path / "store.db", tmp_path / "copy.db"
        before = await filled(tmp_path)
        backup.backup(path, copy)
        move = backup._move_aside

        def interrupted(store: Path) -> None:
            move(store)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(backup, "_move_aside", interrupted)
            with pytest.raises(KeyboardInterrupt):
                backup.restore(copy, path)
        for refused in (SqliteStore.open(path), asyncio.to_thread(backup.backup, path, tmp_path / "b.db")):
            with pytest.raises(StoreError, match="a restore was interrupted"):
                await refused
        backup.restore(copy, path)
        assert await read(path) == before
