"""A process that writes a store until it is killed: `python -m support.store_writer PATH SEED`.

It says on its standard output what it is about to do (`try key kind value`) and what was acknowledged
(`ack key revision`). Every key has one writer, so at most one change of a key is in doubt.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from nodemanager.store.sqlite import SqliteOptions, SqliteStore
from nodemanager.store.state import Retention

WRITERS = 8
KEYS = 5


def say(line: str) -> None:
    """Write a line at once; a line is short enough for a pipe to take it whole."""
    os.write(1, f"{line}\n".encode())


async def write(store: SqliteStore, writer: int, seed: int) -> None:
    """Change the keys of one writer for ever."""
    dice = random.Random(seed * WRITERS + writer)
    while True:
        key = f"/w{writer}/{dice.randrange(KEYS)}"
        value = f"{dice.random()}" * dice.choice([1, 1, 150])
        current = store.get(key)
        if current is None:
            say(f"try {key} put {value}")
            record = await store.create(key, value.encode())
        elif dice.random() < 0.2:
            say(f"try {key} delete -")
            record = await store.delete(key, current.revision)
        else:
            say(f"try {key} put {value}")
            record = await store.update(key, value.encode(), current.revision)
        say(f"ack {key} {record.revision}")


async def main(path: Path, seed: int) -> None:
    """Open the store, and write."""
    store = await SqliteStore.open(path, SqliteOptions(retention=Retention(events=400)))
    say("open")
    await asyncio.gather(*(write(store, writer, seed) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
