"""What only the durable store promises: the file, its lock, its transactions, and disks that fail."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.store import files
from nodemanager.store.base import Compacted, KeyExists, Store, StoreClosed, StoreCorrupt, StoreError
from nodemanager.store.database import Database
from nodemanager.store.sqlite import MAX_BATCH, SqliteStore
from nodemanager.store.state import Retention
from support.stores import FAST, contents, file_names, opened, take

TESTS = Path(__file__).resolve().parents[2]


def rows(path: Path, statement: str) -> list[Any]:
    with contextlib.closing(files.connect(path)) as connection:
        return connection.execute(statement).fetchall()


async def fill(store: Store, count: int, size: int = 10) -> None:
    await asyncio.gather(*(store.create(f"/a/{n:05}", bytes(size)) for n in range(count)))


class TestReopening:
    async def test_everything_is_there_again(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as store:
            await fill(store, 20)
            record = await store.update("/a/00003", b"new", 5)
            await store.delete("/a/00004", 6)
            before, identity = contents(store), store.id
        async with opened(tmp_path) as store:
            assert contents(store) == before
            assert (store.revision, store.compacted, store.id) == (23, 1, identity)
            assert store.get("/a/00003") == record
            assert len(store.list("/", revision=21).records) == 20

    async def test_watches_resume_or_are_told_that_it_is_forgotten(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as store:
            await fill(store, 5)
            await store.update("/a/00001", b"new", 3)
            await store.delete("/a/00002", 4)
            events = await take(store.watch("/", 3), 5)
            await store.compact(3)
        async with opened(tmp_path) as store:
            assert await take(store.watch("/", 3), 5) == events
            with pytest.raises(Compacted):
                store.watch("/", 2)

    async def test_revisions_do_not_go_back_when_the_newest_is_deleted_and_forgotten(
        self, tmp_path: Path
    ) -> None:
        async with opened(tmp_path) as store:
            await store.create("/a/x", b"")
            await store.delete("/a/x", 2)
            await store.compact(3)
        async with opened(tmp_path) as store:
            assert (store.revision, store.compacted) == (3, 3)
            assert (await store.create("/a/x", b"")).created == 4

    async def test_the_file_forgets_with_the_memory_in_small_steps(self, tmp_path: Path) -> None:
        options = replace(FAST, retention=Retention(events=10))
        async with opened(tmp_path, options) as store:
            for n in range(100):
                await store.create(f"/a/{n}", b"")
            assert rows(tmp_path / "store.db", "SELECT count(*) FROM events") == [(11,)]
        async with opened(tmp_path, options) as store:
            assert (store.revision, store.compacted) == (101, 91)

    async def test_a_long_compaction_is_interleaved_with_writes(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as store:
            await fill(store, 1600)
            compacting = asyncio.ensure_future(store.compact(store.revision))
            await asyncio.sleep(0)
            await store.create("/b/x", b"")
            assert not compacting.done()
            await compacting
            assert rows(tmp_path / "store.db", "SELECT revision FROM events") == [(1602,)]

    async def test_the_files_are_for_their_owner_only(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as store:
            await fill(store, 1)
            modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in file_names(tmp_path)}
        assert modes == dict.fromkeys(["store.db", "store.db-wal", "store.db-shm", "store.db.lock"], 0o600)
        assert file_names(tmp_path) == ["store.db", "store.db.lock"]


class TestTransactions:
    async def test_writes_that_wait_go_together(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes: list[int] = []
        commit = Database.commit

        def counted(self: Database, events: Sequence[Any], at: float, forget: int) -> None:
            sizes.append(len(events))
            commit(self, events, at, forget)

        monkeypatch.setattr(Database, "commit", counted)
        async with opened(tmp_path) as store:
            await fill(store, 600)
        assert sizes == [1, MAX_BATCH, MAX_BATCH, 599 - 2 * MAX_BATCH]

    async def test_a_cancelled_write_that_did_not_start_does_not_happen(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as store:
            writes = [asyncio.ensure_future(store.create(f"/a/{n}", b"")) for n in range(3)]
            await asyncio.sleep(0)
            writes[0].cancel()
            writes[1].cancel()
            await writes[2]
            assert list(contents(store)) == ["/a/0", "/a/2"]

    async def test_closing_waits_for_what_is_under_way(self, tmp_path: Path) -> None:
        store = await SqliteStore.open(tmp_path / "store.db", FAST)
        writing = asyncio.ensure_future(fill(store, 600))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await store.close()
        await writing
        async with opened(tmp_path) as store:
            assert len(contents(store)) == 600

    async def test_a_close_that_nobody_waits_for_closes_all_the_same(self, tmp_path: Path) -> None:
        store = await SqliteStore.open(tmp_path / "store.db", FAST)
        writing = asyncio.ensure_future(fill(store, 600))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(StoreClosed):
            await store.compact(1)
        await store.close()
        await writing
        async with opened(tmp_path) as store:
            assert len(contents(store)) == 600

    async def test_a_refusal_based_on_a_write_that_failed_is_not_given(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with opened(tmp_path) as store:
            await store.create("/a/old", b"")
            monkeypatch.setattr(Database, "_write", fail_with("SQLITE_FULL"))
            outcomes = await asyncio.gather(
                store.create("/a/first", b""),
                store.create("/a/x", b""),
                store.create("/a/x", b""),
                store.create("/a/old", b""),
                return_exceptions=True,
            )
            assert [type(outcome) for outcome in outcomes] == [StoreClosed] * 3 + [KeyExists]


async def write_until_full(store: Store) -> None:
    for n in range(1000):
        await store.create(f"/a/{n}", bytes(8000))


def fail_with(name: str) -> Any:
    def fail(*_: object) -> None:
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorname = name
        raise error

    return fail


class TestFailingDisks:
    async def check_full(self, folder: Path, make_room: Any) -> None:
        """Fill the disk; the store must say so, stay right, and go on once there is room."""
        async with opened(folder, replace(FAST, synchronous="FULL")) as store:
            watch = store.watch("/", store.revision)
            record = await store.create("/a/first", b"1")
            with pytest.raises(StoreClosed, match=r"cannot write .*store\.db"):
                await write_until_full(store)
            written = store.revision - 1
            before = contents(store)
            assert (len(before), store.revision, store.broken) == (written, written + 1, "")
            with pytest.raises(StoreClosed):
                await store.update("/a/first", bytes(700_000), record.revision)
            assert contents(store) == before
            make_room()
            await store.update("/a/first", b"2", record.revision)
            assert [e.record.revision for e in await take(watch, written + 1)] == [*range(2, written + 3)]
            before = contents(store)
        async with opened(folder) as store:
            assert contents(store) == before

    async def test_a_file_that_may_not_grow(self, tmp_path: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        try:
            await self.check_full(tmp_path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    async def test_a_full_file_system(self, small_disk: Path) -> None:
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(600_000))
        await self.check_full(small_disk, ballast.unlink)

    async def test_a_locked_file_fails_the_write_and_not_the_store(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with opened(tmp_path) as store:
            store._database._connection.execute("PRAGMA busy_timeout = 0")
            with contextlib.closing(files.connect(tmp_path / "store.db")) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreClosed, match=r"database is locked \(BUSY\)"):
                    await store.create("/a/x", b"1")
                other.execute("ROLLBACK")
            assert (await store.create("/a/x", b"2")).revision == 2

    @pytest.mark.parametrize("name", ["SQLITE_IOERR_FSYNC", "SQLITE_CORRUPT", "SQLITE_READONLY_DBMOVED"])
    async def test_after_what_cannot_be_trusted_nothing_is_written_any_more(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        async with opened(tmp_path) as store:
            await store.create("/a/x", b"1")
            with monkeypatch.context() as patch:
                patch.setattr(Database, "_write", fail_with(name))
                with pytest.raises(StoreClosed, match="mend the disk and start again"):
                    await store.create("/a/y", b"")
            with pytest.raises(StoreClosed, match="mend the disk and start again"):
                await store.create("/a/y", b"")
            assert store.broken
            assert list(contents(store)) == ["/a/x"]
        async with opened(tmp_path) as store:
            assert (await store.create("/a/y", b"")).revision == 3

    async def test_a_file_that_somebody_else_changed_is_not_written(self, tmp_path: Path) -> None:
        async with opened(tmp_path) as store:
            await store.create("/a/x", b"1")
            rows(tmp_path / "store.db", "DELETE FROM objects")
            with pytest.raises(StoreClosed, match="/a/x is not what we wrote"):
                await store.update("/a/x", b"2", 2)
            assert store.get("/a/x") is not None
        with pytest.raises(StoreCorrupt, match="its objects are not those of its last transaction"):
            await SqliteStore.open(tmp_path / "store.db")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this root may not mount a file system")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def run_writer(path: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "support.store_writer", str(path), "1"]
    return subprocess.run(argv, cwd=TESTS, capture_output=True, text=True, check=False, timeout=30)


class TestOpening:
    async def test_a_second_process_is_refused_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        async with opened(tmp_path) as store:
            await fill(store, 3)
            second = await asyncio.to_thread(run_writer, path)
            assert second.returncode == 1
            assert f"StoreError: cannot open {path}: another process has it open" in second.stderr
            with pytest.raises(StoreError, match="another process has it open"):
                await SqliteStore.open(path)
            await store.create("/b/x", b"")
        async with opened(tmp_path) as store:
            assert len(contents(store)) == 4

    @pytest.mark.parametrize("data", [b"", b"hello", b"SQLite format 3\0" + bytes(4080)])
    async def test_what_is_no_database_is_refused_and_left_alone(self, tmp_path: Path, data: bytes) -> None:
        path = tmp_path / "store.db"
        path.write_bytes(data)
        with pytest.raises(StoreCorrupt, match=r"cannot open .*store\.db: .*`nodemanager server restore`"):
            await SqliteStore.open(path)
        assert path.read_bytes() == data

    async def test_a_database_of_somebody_else_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE meta (version)")
        with pytest.raises(StoreCorrupt, match="it is not a store of nodemanager"):
            await SqliteStore.open(path)

    async def test_a_newer_version_is_refused(self, tmp_path: Path) -> None:
        async with opened(tmp_path):
            pass
        rows(tmp_path / "store.db", "UPDATE meta SET version = 7")
        with pytest.raises(StoreCorrupt, match="it is of version 7, and this nodemanager knows 1"):
            await SqliteStore.open(tmp_path / "store.db")

    async def test_a_lost_file_is_not_replaced_by_an_empty_one(self, tmp_path: Path) -> None:
        (tmp_path / "store.db-wal").write_bytes(b"x")
        with pytest.raises(StoreCorrupt, match="it is missing, but its -wal file is there"):
            await SqliteStore.open(tmp_path / "store.db")

    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE objects SET value = x'00' WHERE key = '/a/00001'",
            "UPDATE objects SET key = '/a/00009' WHERE key = '/a/00001'",
            "UPDATE objects SET key = CAST(key AS BLOB) WHERE key = '/a/00001'",
            "DELETE FROM objects WHERE key = '/a/00001'",
            "DELETE FROM events WHERE revision = 3",
            "DELETE FROM events WHERE revision = 2",
            "DELETE FROM events WHERE revision = 7",
            "UPDATE events SET value = x'00' WHERE revision = 7",
            "UPDATE meta SET revision = revision + 1",
            "UPDATE meta SET compacted = compacted - 1",
            "UPDATE meta SET id = 'x'",
            "DELETE FROM meta",
            "INSERT INTO meta SELECT * FROM meta",
            "DROP TABLE events",
        ],
    )
    async def test_contents_that_do_not_fit_are_refused(self, tmp_path: Path, damage: str) -> None:
        async with opened(tmp_path) as store:
            await fill(store, 5)
            await store.update("/a/00000", b"new", 2)
        rows(tmp_path / "store.db", damage)
        with pytest.raises(StoreCorrupt, match="`nodemanager server restore`"):
            await SqliteStore.open(tmp_path / "store.db")

    async def test_a_file_that_cannot_be_created(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"cannot open .*: cannot lock it: .*No such file"):
            await SqliteStore.open(tmp_path / "none" / "store.db")

    async def test_an_unknown_setting_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="synchronous must be FULL, NORMAL or OFF"):
            await SqliteStore.open(tmp_path / "store.db", replace(FAST, synchronous="MAYBE"))

    async def test_a_cancelled_open_leaves_nothing_open(self, tmp_path: Path) -> None:
        opening = asyncio.ensure_future(SqliteStore.open(tmp_path / "store.db", FAST))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with asyncio.timeout(90):
            while True:
                try:
                    store = await SqliteStore.open(tmp_path / "store.db", FAST)
                except StoreError:
                    continue
                break
        await store.close()
