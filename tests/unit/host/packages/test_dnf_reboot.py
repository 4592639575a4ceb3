"""Whether dnf asks for a reboot, replayed: needs-restarting knows this host only, and no root beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.host.files.tree import Tree
from nodemanager.host.packages.common import PackageContext
from nodemanager.host.packages.dnf import Dnf
from support.replayed_tools import ReplayedTools

NEEDED = """\
Core libraries or services have been updated since boot-up:
  * glibc
  * kernel-core

Reboot is required to fully utilize these updates.
"""


@pytest.fixture
def tree() -> Iterator[Tree]:
    tree = Tree()
    yield tree
    tree.close()


@pytest.mark.parametrize(
    ("out", "err", "status", "reason"),
    [
        pytest.param(
            NEEDED, "", 1, "dnf needs-restarting says so, because of glibc, kernel-core", id="needed"
        ),
        pytest.param("Reboot should not be necessary.\n", "", 0, "", id="not needed"),
        pytest.param("", "No such command: needs-restarting.\n", 1, "", id="dnf 4 without the plugin"),
        pytest.param("", 'Unknown argument "needs-restarting"\n', 2, "", id="dnf 5 without the plugin"),
    ],
)
async def test_reboot_needed(
    tmp_path: Path, tree: Tree, out: str, err: str, status: int, reason: str
) -> None:  # fmt: skip
    tools = ReplayedTools(tmp_path, "dnf")
    tools.answer("dnf needs-restarting -r", out, err=err, status=status)
    assert await Dnf(PackageContext(tree, tools.run)).reboot_needed() == reason
