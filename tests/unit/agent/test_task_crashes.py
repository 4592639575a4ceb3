"""Agents that are killed in the middle of tasks of all kinds of steps: none is done twice, none is lost.

NODEMANAGER_TASK_KILLS=300 pytest -n 2 tests/unit/agent/test_task_crashes.py
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from support.root_tree import needs_root

pytestmark = [needs_root, pytest.mark.timeout(1800)]
KILLS = int(os.environ.get("NODEMANAGER_TASK_KILLS", "60"))
SHARDS = 3


async def killed(folder: Path, seed: int, count: int, *how: str) -> list[str]:
    """Kill so many agents; return what was wrong, and as the last line how many there were."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.task_rounds", str(folder), str(seed), str(count), *how,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()[-4000:]
    return stdout.decode().splitlines()


@pytest.mark.parametrize("seed", range(SHARDS))
async def test_killed_anywhere(tmp_path: Path, seed: int) -> None:
    *wrong, done = await killed(tmp_path, seed, KILLS // SHARDS)
    assert wrong == []
    assert int(done.split(" ")[1]) >= KILLS // SHARDS


@pytest.mark.parametrize("seed", range(SHARDS))
async def test_power_cut_anywhere(tmp_path: Path, seed: int) -> None:
    count = -(-KILLS // SHARDS // 6)
    *wrong, done = await killed(tmp_path, seed, count, "power")
    assert wrong == []
    assert int(done.split(" ")[1]) >= count
