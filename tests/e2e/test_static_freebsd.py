"""The programs of make release that are for FreeBSD, looked at where nobody can run them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # tools/ is not installed

from tools.release import elf, symbols
from tools.release.targets import TARGETS

from support import static_program

FREEBSD = [name for name, target in TARGETS.items() if not target.is_static]


@pytest.mark.parametrize("name", FREEBSD)
def test_it_is_one_file_for_the_base_system(name: str) -> None:
    program = static_program.find(name)
    elf.check(program, TARGETS[name])
    found = elf.read(program)
    assert found.interpreter == "/libexec/ld-elf.so.1"
    assert "libc.so.7" in found.needed


@pytest.mark.parametrize("name", FREEBSD)
def test_all_that_it_wants_is_of_a_version_that_freebsd_14_has(name: str) -> None:
    """The build compares with the libraries themselves, of which only the compiler has a copy."""
    wanted = symbols.read(static_program.find(name)).wanted
    assert "strlen@FBSD_1.0" in wanted
    versions = {each.partition("@")[2] for each in wanted}
    assert {each for each in versions if not each.startswith("FBSD_1.")} <= {"", "FBSDprivate_1.0"}
