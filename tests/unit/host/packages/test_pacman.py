"""pacman, replayed: the state of its database decides what may be installed after an upgrade that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import pytest

from nodemanager.host.base import How, ToolFailed, WantedPackage
from nodemanager.host.files import file_facts
from nodemanager.host.files.tree import Tree
from nodemanager.host.packages.common import PackageContext
from nodemanager.host.packages.pacman import QUIET, Pacman
from nodemanager.host.process.runner import Completed
from support.replayed_tools import ReplayedTools

UPGRADE = f"pacman -Syu {' '.join(QUIET)}"
INSTALL = f"pacman -S --needed {' '.join(QUIET)} -- htop"


class Arch:
    """A root of Arch whose pacman fails to upgrade, and may have refreshed its database before it did."""

    def __init__(self, path: Path) -> None:
        self.root = path / "root"
        self.offered = self.root / "var/lib/pacman/sync/core.db"
        self.offered.parent.mkdir(parents=True)
        self.offered.write_text("yesterday")
        self.tools = ReplayedTools(path, "pacman")
        self.tools.answer("pacman -Si -- htop", "Name            : htop\nVersion         : 3.2-1\n")
        self.tools.answer(UPGRADE, err="error: failed\n", status=1)
        self.tools.answer(INSTALL)
        self.refreshes = False
        self.grain_after: int | None = None
        self.tree = Tree(str(self.root))
        self.pacman = Pacman(PackageContext(self.tree, self.run, clock=lambda: 0.0, lock_seconds=0))

    async def run(self, argv: Sequence[str], **how: Unpack[How]) -> Completed:
        if "-Syu" in argv:
            if self.refreshes:
                new = self.offered.with_suffix(".part")
                new.write_text("today")
                new.replace(self.offered)
            if self.grain_after is not None:
                file_facts.GRAIN = self.grain_after
        return await self.tools.run(argv, **how)


@pytest.fixture
def arch(tmp_path: Path) -> Iterator[Arch]:
    arch = Arch(tmp_path)
    yield arch
    arch.tree.close()


@pytest.mark.parametrize("fresh_before", [True, False])
@pytest.mark.parametrize("fresh_after", [True, False])
@pytest.mark.parametrize("refreshes", [True, False])
async def test_only_a_refreshed_database_forbids_to_install_however_fresh_it_is(
    arch: Arch, monkeypatch: pytest.MonkeyPatch, fresh_before: bool, fresh_after: bool, refreshes: bool
) -> None:
    ages = {True: 10**18, False: -(10**18)}
    monkeypatch.setattr(file_facts, "GRAIN", ages[fresh_before])
    arch.refreshes, arch.grain_after = refreshes, ages[fresh_after]
    with pytest.raises(ToolFailed, match="cannot upgrade all packages"):
        await arch.pacman.upgrade_all()
    if not refreshes:
        await arch.pacman.install([WantedPackage("htop")])
        assert INSTALL in arch.tools.calls()
        return
    with pytest.raises(ToolFailed, match="partial upgrade"):
        await arch.pacman.install([WantedPackage("htop")])
