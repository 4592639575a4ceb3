"""A process that is killed while many write: what was acknowledged is there, and no revision comes twice.

`NODEMANAGER_CRASH_ROUNDS` says how often to kill it.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nodemanager.store.base import Compacted
from nodemanager.store.sqlite import SqliteOptions, SqliteStore
from nodemanager.store.state import Retention
from support.stores import take

ROUNDS = int(os.environ.get("NODEMANAGER_CRASH_ROUNDS", "10"))
CHUNK = 5
"""How many crashes one file goes through."""

TESTS = Path(__file__).resolve().parents[2]


@dataclass
class Ledger:
    """What the writers said: the value of each key, the changes in doubt, and all acknowledged revisions."""

    values: dict[str, str | None] = field(default_factory=dict)
    doubtful: dict[str, str | None] = field(default_factory=dict)
    revisions: dict[int, str] = field(default_factory=dict)

    def note(self, line: str) -> None:
        match line.split():
            case ["try", key, kind, value]:
                self.doubtful[key] = value if kind == "put" else None
            case ["ack", key, revision]:
                assert int(revision) not in self.revisions, "a revision was given out twice"
                self.values[key] = self.doubtful.pop(key)
                self.revisions[int(revision)] = key


def crash(path: Path, seed: int, ledger: Ledger) -> None:
    """Let the writers write, kill them after a random number of lines, and note everything they said."""
    left = random.Random(seed).randrange(1, 1500)
    process = subprocess.Popen(
        [sys.executable, "-m", "support.store_writer", path, str(seed)],
        cwd=TESTS,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # it was killed within a line: it did not say that
            ledger.note(line)
            left -= 1
            if left == 0:
                process.kill()
    assert process.returncode == -9


async def check(path: Path, ledger: Ledger, seen: int) -> int:
    """Open the store and compare it with the ledger; return its revision."""
    store = await SqliteStore.open(path, SqliteOptions(retention=Retention(events=400)))
    last = max(ledger.revisions, default=1)
    assert store.revision >= max(last, seen)
    for key in {*ledger.values, *ledger.doubtful}:
        record = store.get(key)
        value = record.value.decode() if record else None
        allowed = [ledger.values.get(key)]
        if key in ledger.doubtful:
            allowed.append(ledger.doubtful[key])
        assert value in allowed, f"{key} lost an acknowledged change"
        ledger.values[key] = value
    assert {r.key for r in store.list("/").records} <= set(ledger.values)
    await check_watches(store, ledger, seen)
    ledger.doubtful.clear()
    revision = store.revision
    await store.close()
    return revision


async def check_watches(store: SqliteStore, ledger: Ledger, seen: int) -> None:
    """A watch resumes from where it was, or is told that this is forgotten."""
    try:
        watch = store.watch("/", seen)
    except Compacted:
        assert seen < store.compacted
        seen = store.compacted
        watch = store.watch("/", seen)
    events = await take(watch, store.revision - seen)
    heard = {event.record.revision: event.record.key for event in events}
    assert list(heard) == list(range(seen + 1, store.revision + 1))
    for revision, key in ledger.revisions.items():
        assert revision <= seen or heard[revision] == key


@pytest.mark.parametrize("chunk", range(-(-ROUNDS // CHUNK)))
def test_a_killed_process_loses_nothing_that_was_acknowledged(chunk: int, tmp_path: Path) -> None:
    path, ledger, seen = tmp_path / "store.db", Ledger(), 1
    for number in range(CHUNK):
        crash(path, chunk * CHUNK + number, ledger)
        seen = asyncio.run(check(path, ledger, seen))
    assert len(ledger.revisions) > CHUNK
