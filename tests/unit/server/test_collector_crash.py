"""A server killed in the middle of a collection: the next one finishes it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nodemanager.client.calls import Selection
from nodemanager.kube.objects import Untyped
from nodemanager.store.sqlite import SqliteStore
from support.collecting_process import BRANCHES, LEAVES
from support.embedded import serving
from support.owned import CONFIG_MAPS, collected

EVERYTHING = 1 + BRANCHES + BRANCHES * LEAVES


def kill_in_the_middle(path: Path, policy: str, changes: int) -> None:
    argv = [sys.executable, "-m", "support.collecting_process", str(path), policy, str(changes)]
    done = subprocess.run(argv, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL


async def names(path: Path, *, collect: bool) -> dict[str, Untyped]:
    """Return the metadata of all objects, after the next start or as the killed process left them."""
    store = await SqliteStore.open(path)
    try:
        if not collect:
            return {record.key: {} for record in store.list("/core/configmaps/").records}
        async with serving(store) as server:
            await collected(server.hub)
            found = await server.client.list(CONFIG_MAPS, Selection("default"))
            return {item["metadata"]["name"]: item["metadata"] for item in found.items}
    finally:
        await store.close()


@pytest.mark.parametrize("changes", [1, 20, 100])
@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_everything_goes_after_a_kill(tmp_path: Path, policy: str, changes: int) -> None:
    path = tmp_path / "store.db"
    kill_in_the_middle(path, policy, changes)
    assert 0 < len(await names(path, collect=False)) <= EVERYTHING
    assert await names(path, collect=True) == {}


@pytest.mark.parametrize("changes", [1, 5])
async def test_every_branch_is_let_go_after_a_kill(tmp_path: Path, changes: int) -> None:
    path = tmp_path / "store.db"
    kill_in_the_middle(path, "Orphan", changes)
    left = await names(path, collect=True)
    assert len(left) == EVERYTHING - 1
    branches = [meta for name, meta in left.items() if name.count("-") == 1]
    assert len(branches) == BRANCHES
    assert not any("ownerReferences" in meta for meta in branches)
