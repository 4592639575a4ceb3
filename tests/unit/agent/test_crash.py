"""The agent is killed, or its disk fails, anywhere in a pass: the next pass ends as if nothing had been.

`NODEMANAGER_AGENT_CRASH_ROUNDS` says how many passes are killed at random moments. Without it (or
with a small number) only some of the boundaries are tried; from 300 on, every one of them is.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from support.root_tree import needs_root

pytestmark = [needs_root, pytest.mark.timeout(1800)]
ROUNDS = int(os.environ.get("NODEMANAGER_AGENT_CRASH_ROUNDS", "15"))
EVERY = ROUNDS >= 300
SHARDS = 4
"""Of the boundaries, so that they are tried in parallel; a sample begins elsewhere in each."""


async def disturbed(folder: Path, *arguments: str) -> list[str]:
    """Disturb passes; return what was wrong, and as the last line how many there were."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.crash_rounds", str(folder), *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()[-4000:]
    return stdout.decode().splitlines()


@pytest.mark.parametrize("shard", range(SHARDS))
async def test_killed_at_every_boundary(tmp_path: Path, shard: int) -> None:
    step = SHARDS if EVERY else 97
    *wrong, done = await disturbed(tmp_path / "host", "points", str(shard), str(step))
    assert wrong == []
    assert int(done.split(" ")[0]) > (100 if EVERY else 3)


async def test_killed_at_random_moments(tmp_path: Path) -> None:
    *wrong, done = await disturbed(tmp_path / "host", "times", "0", "1", str(ROUNDS))
    assert (wrong, done) == ([], f"{ROUNDS} passes disturbed")


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS", "EMFILE"])
async def test_one_call_fails_and_the_rest_goes_on(tmp_path: Path, error: str) -> None:
    step = 1 if EVERY else 149
    *wrong, done = await disturbed(tmp_path / "host", error, "7", str(step))
    assert wrong == []
    assert int(done.split(" ")[0]) > 3
