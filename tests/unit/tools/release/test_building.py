"""What `make release` leaves in dist/ when a program may not be released."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tools.release import __main__ as release
from tools.release import elf, program
from tools.release.sources import CannotBuild
from tools.release.targets import LARGEST, TARGETS, Target, native
from tools.release.toolchain import Toolchain

from support.executables import executable


class Workshop(release.Workshop):
    """One in which all parts are there."""

    def interpreter(self, target: Target) -> Path:
        return self.tools(target).folder / "python"

    def extensions(self, target: Target) -> None:
        """They are there."""

    def allocator(self, target: Target) -> None:
        """It is there."""


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is linked is as it has to be, but that it is too large for FreeBSD."""
    for name in ("install_site", "prepare", "pack"):
        monkeypatch.setattr(program, name, lambda *_: Path())

    def build(tools: Toolchain, _packed: Path, output: Path) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        executable(output, elf.MACHINES[tools.target.name.partition("-")[2]])
        if not tools.target.is_static:
            os.truncate(output, LARGEST + 1)

    monkeypatch.setattr(program, "build", build)


@pytest.mark.usefixtures("compiler")
def test_nothing_of_a_release_is_there_unless_all_programs_may_be(tmp_path: Path) -> None:
    dist, shop = tmp_path / "dist", Workshop(tmp_path / "cache", 1700000000, 1)
    with pytest.raises(CannotBuild, match=r"freebsd-amd64: it has 25\.00 MiB"):
        release.build(shop, [native(), TARGETS["freebsd-amd64"]], dist, None, packages=False)
    assert list(dist.iterdir()) == []
