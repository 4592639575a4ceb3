"""What is read from the headers of an executable, and which programs are not released."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tools.release import elf
from tools.release.sources import CannotBuild
from tools.release.targets import LARGEST, TARGETS, Target

from support.executables import executable

MACHINES = [pytest.param(True, 62, id="64 bits"), pytest.param(False, 40, id="32 bits")]


@pytest.mark.parametrize(("wide", "machine"), MACHINES)
def test_libraries_and_loader_are_read(wide: bool, machine: int, tmp_path: Path) -> None:
    found = elf.read(
        executable(tmp_path / "x", machine, ("liba.so", "libb.so.1"), wide=wide, loader="/ld.so")
    )
    assert found == elf.Executable(machine, "/ld.so", ("liba.so", "libb.so.1"))
    assert elf.read(executable(tmp_path / "y", machine, wide=wide)) == elf.Executable(machine, "", ())


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_a_program_is_for_its_target_and_needs_nothing_that_hosts_lack(
    target: Target, tmp_path: Path
) -> None:
    machine = elf.MACHINES[target.name.partition("-")[2]]
    wide = machine != 40
    needed = () if target.is_static else ("libc.so.7", "libthr.so.3")
    elf.check(executable(tmp_path / "good", machine, needed, wide=wide), target)
    with pytest.raises(CannotBuild, match=r"needs libz\.so\.6, which hosts may lack"):
        elf.check(executable(tmp_path / "bad", machine, (*needed, "libz.so.6"), wide=wide), target)
    with pytest.raises(CannotBuild, match="it is for machine 8 of ELF"):
        elf.check(executable(tmp_path / "mips", 8, wide=wide), target)


def test_a_static_program_has_no_loader(tmp_path: Path) -> None:
    made = executable(tmp_path / "x", 62, loader="/lib/ld-musl-x86_64.so.1")
    with pytest.raises(CannotBuild, match="it needs /lib/ld-musl"):
        elf.check(made, TARGETS["linux-amd64"])
    with pytest.raises(CannotBuild, match="it is no executable"):
        elf.read(Path(__file__))


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_one_that_is_larger_than_the_goal_is_not_released(target: Target, tmp_path: Path) -> None:
    machine = elf.MACHINES[target.name.partition("-")[2]]
    made = executable(tmp_path / "x", machine, wide=machine != 40)
    os.truncate(made, LARGEST)
    elf.check(made, target)
    os.truncate(made, LARGEST + 1)
    with pytest.raises(CannotBuild, match=r"it has 25\.00 MiB, and 25 is the goal"):
        elf.check(made, target)
