"""Upgrades of the agent that are killed, or end in a power cut: the host has a program that works.

NODEMANAGER_UPGRADE_STEP=1 pytest -n 2 tests/unit/host/self_update/test_upgrade_crashes.py
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from support.root_tree import needs_root

pytestmark = [needs_root, pytest.mark.timeout(1800)]
STEP = int(os.environ.get("NODEMANAGER_UPGRADE_STEP", "11"))
"""How many points there are between two that are tried: 1 tries all of them, which takes minutes."""


@pytest.mark.parametrize("how", ["cut", "kill"])
@pytest.mark.parametrize(
    ("what", "kind"), [("upgrade", "good"), ("guard", "good"), ("guard", "crash"), ("guard", "hang")]
)
async def test_killed_anywhere(tmp_path: Path, what: str, kind: str, how: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.program_rounds", str(tmp_path), what, kind, how, str(STEP),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()[-4000:]
    *wrong, done = stdout.decode().splitlines()
    assert wrong == []
    assert int(done.removeprefix("killed ")) > 0
