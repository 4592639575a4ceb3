"""The agent is killed anywhere while it brings a set about, or takes it back: in the end, all is as before.

`NODEMANAGER_AGENT_CRASH_ROUNDS` from 300 on has every boundary tried, and otherwise a sample.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import prune_host
from support.root_tree import needs_root

EVERY = int(os.environ.get("NODEMANAGER_AGENT_CRASH_ROUNDS", "15")) >= 300
pytestmark = [needs_root, pytest.mark.timeout(7200 if EVERY else 1800)]


MODES = [("applying", 5), ("pruning", 11), ("ENOSPC", 17), *([("EIO", 31)] if EVERY else [])]


async def rounds(folder: Path, *args: str) -> list[str]:
    """Run `prune_rounds` with a host in a folder; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.prune_rounds", str(folder / "host"), *args,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()[-4000:]
    return stdout.decode().splitlines()


@pytest.mark.parametrize("mode", ["applying", "pruning"])
async def test_the_boundaries_are_at_every_step_of_every_kind(tmp_path: Path, mode: str) -> None:
    """Who is killed at all of them is killed with and without a record, before and after each deed."""
    (said,) = await rounds(tmp_path, mode, "0", "0")
    found = json.loads(said)
    assert prune_host.missed(found["seen"], mode) == []
    assert found["strange"] == []  # what an execution did is its own
    kinds = Counter(one.partition(":")[0] for one in found["seen"])
    assert kinds == {"package": 2, "service": 3, "file": 26}


@pytest.mark.parametrize(("mode", "first"), MODES)
async def test_killed_or_failing_at_every_boundary(tmp_path: Path, mode: str, first: int) -> None:
    where = ("0", "1") if EVERY else (str(first), "149" if mode.islower() else "397")
    *wrong, done = await rounds(tmp_path, mode, *where)
    assert wrong == []
    assert int(done.split(" ")[0]) > (300 if EVERY else 1)
