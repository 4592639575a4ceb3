"""The agent is killed anywhere while it brings a set about, or takes it back: in the end, all is as before.

`NODEMANAGER_AGENT_CRASH_ROUNDS` from 300 on has every boundary tried, and otherwise a sample.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from support.root_tree import needs_root

pytestmark = [needs_root, pytest.mark.timeout(1800)]
EVERY = int(os.environ.get("NODEMANAGER_AGENT_CRASH_ROUNDS", "15")) >= 300


@pytest.mark.parametrize(("mode", "first"), [("applying", 5), ("pruning", 11), ("ENOSPC", 17), ("EIO", 31)])
async def test_killed_or_failing_at_every_boundary(tmp_path: Path, mode: str, first: int) -> None:
    where = ("0", "1") if EVERY else (str(first), "149" if mode.islower() else "397")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.prune_rounds", str(tmp_path / "host"), mode, *where,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()[-4000:]
    *wrong, done = stdout.decode().splitlines()
    assert wrong == []
    assert int(done.split(" ")[0]) > (300 if EVERY else 1)
