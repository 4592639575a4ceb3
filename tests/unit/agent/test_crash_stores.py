"""Who writes down drifts and memories is killed, or fails, at every boundary: nothing is torn or twice."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["kill", "ENOSPC", "EIO"])
async def test_disturbed_at_every_boundary(tmp_path: Path, mode: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.crash_stores", str(tmp_path), mode,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()[-4000:]
    *wrong, done = stdout.decode().splitlines()
    assert wrong == []
    assert int(done.split()[0]) > 100
