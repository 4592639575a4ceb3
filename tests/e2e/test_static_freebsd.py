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
    """FBSD_1.7 came with 14.0: an older loader, which may not know RELR either, says why it refuses."""
    wanted = symbols.read(static_program.find(name)).wanted
    assert "pthread_create@FBSD_1.0" in wanted
    versions = {each.partition("@")[2] for each in wanted}
    assert "FBSD_1.7" in versions
    assert versions <= {"", *(f"FBSD_1.{number}" for number in range(8))}
