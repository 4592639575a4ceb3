"""A program is not released that wants symbols which the libraries that it names do not have."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tools.release import symbols
from tools.release.sources import CannotBuild

from support.native_module import compiler

MAP = "ONE { global: first; old; data; local: *; };\nTWO { global: second; } ONE;\n"
LIBRARY = """
int data = 1;
int first(void) { return 1; }
int second(void) { return 2; }
int inner(void) { return 3; }
int old_one(void) { return 4; }
__asm__(".symver old_one, old@ONE");
"""
PROGRAM = (
    "int first(void), second(void); extern int data; int main(void) { return first() + second() + data; }"
)


def made(folder: Path, name: str, text: str, *more: str) -> Path:
    """Compile something that needs no C library."""
    source = folder / f"{name}.c"
    source.write_text(text)
    path = folder / name
    argv = [*compiler(), "-nostdlib", "-fPIC", "-o", str(path), str(source), *more]
    subprocess.run(argv, check=True, capture_output=True)
    return path


def library(folder: Path, text: str = LIBRARY, versions: str = MAP, name: str = "libone.so.1") -> Path:
    folder.mkdir(exist_ok=True)
    script = folder / f"{name}.map"
    script.write_text(versions)
    flags = ("-shared", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}")
    return made(folder, name, text, *flags)


def program(folder: Path, linked: Path, text: str = PROGRAM) -> Path:
    return made(folder, "program", text, str(linked), "-Wl,-e,main", "-Wl,--hash-style=gnu", "-s")


def test_what_a_library_has_and_a_program_wants_is_read_with_versions(tmp_path: Path) -> None:
    one = library(tmp_path)
    found = symbols.read(one)
    assert {each for each in found.defined if "@" in each} >= {"first@ONE", "second@TWO", "data@ONE"}
    assert not [each for each in found.defined if each.startswith("inner")]
    assert symbols.read(program(tmp_path, one)).wanted >= {"first@ONE", "second@TWO"}
    symbols.check(tmp_path / "program", [one])


@pytest.mark.parametrize(
    ("text", "versions", "lacking"),
    [
        pytest.param(
            LIBRARY.replace("second", "third"), MAP.replace("second", "third"), "second@TWO", id="name"
        ),
        pytest.param(LIBRARY, MAP.replace("TWO", "ANEW"), "second@TWO", id="version"),
    ],
)
def test_a_symbol_that_is_not_there_on_hosts_is_found(
    tmp_path: Path, text: str, versions: str, lacking: str
) -> None:
    wants = program(tmp_path, library(tmp_path))
    host = library(tmp_path / "host", text, versions)
    with pytest.raises(CannotBuild, match=rf"it wants {re.escape(lacking)}, which none of libone\.so\.1 has"):
        symbols.check(wants, [host])


def test_a_weak_symbol_that_is_missing_is_found_which_the_linker_lets_pass(tmp_path: Path) -> None:
    one = library(tmp_path)
    text = "int first(void); __attribute__((weak)) int nowhere(void);"
    wants = program(tmp_path, one, f"{text} int main(void) {{ return nowhere ? nowhere() : first(); }}")
    with pytest.raises(CannotBuild, match="it wants nowhere, which none of"):
        symbols.check(wants, [one])


def test_a_library_with_which_it_was_not_linked_proves_nothing(tmp_path: Path) -> None:
    wants = program(tmp_path, library(tmp_path))
    with pytest.raises(CannotBuild, match=r"it needs libone\.so\.1, with which it was not linked"):
        symbols.check(wants, [tmp_path / "libtwo.so.1"])


def test_what_has_no_symbols_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotBuild, match="it is no file of ELF with 64 bits"):
        symbols.read(Path(__file__))
    bare = tmp_path / "bare"
    bare.write_bytes(b"\x7fELF\x02\x01\x01".ljust(64, b"\0"))
    with pytest.raises(CannotBuild, match="it has no table of them"):
        symbols.read(bare)
