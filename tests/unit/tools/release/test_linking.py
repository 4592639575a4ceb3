"""How a program is linked a second time, by the call of the linker that the compiler made."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.release import linking
from tools.release.sources import CannotBuild
from tools.release.targets import TARGETS
from tools.release.toolchain import Toolchain

CALL = "ld.lld -static -pie -o nodemanager program.o"
PART = "ld.lld -r -static -o /cache/nodemanager/rcrt1.o /cache/start.o"
COMPILER = '#!/bin/sh\necho "$*" > nodemanager\n[ -z "$ZIG_VERBOSE_LINK" ] || echo "SAID" >&2\n'
LINKER = '#!/bin/sh\necho "$*" > nodemanager\n'


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, said: str = CALL,
    libraries: list[Path] | None = None,
) -> str:  # fmt: skip
    """Link by programs that write down what they were given; return what the last one was given."""
    tools = Toolchain(TARGETS[target], tmp_path / target)
    folder = tools.folder / "program"
    folder.mkdir(parents=True, exist_ok=True)
    program(tools.folder / "tools/cc", COMPILER.replace("SAID", said))
    monkeypatch.setattr(linking, "zig_program", lambda: program(tmp_path / "zig", LINKER))
    found = linking.link(tools, ["cc", "program.o"], folder, "nodemanager")
    if libraries is not None:
        libraries += found
    return (folder / "nodemanager").read_text().strip()


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_has_packed_relocations_and_no_tables_for_unwinding(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = linked(tmp_path, monkeypatch, target)
    assert given == f"{CALL} --no-eh-frame-hdr -T {linking.SCRIPT} --pack-dyn-relocs=relr"
    assert "*(.eh_frame)" in (tmp_path / target / "program" / linking.SCRIPT).read_text()


def test_the_libraries_that_it_is_linked_with_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = "--dynamic-linker /libexec/ld-elf.so.1"
    said = f"{CALL} {loader} /c/o/1/libm.so.5 --as-needed /c/o/1/libc.so.7 /c/o/2/libcompiler_rt.a"
    libraries: list[Path] = []
    linked(tmp_path, monkeypatch, "freebsd-amd64", said, libraries)
    assert libraries == [Path("/c/o/1/libm.so.5"), Path("/c/o/1/libc.so.7")]
    libraries.clear()
    linked(tmp_path, monkeypatch, "linux-amd64", CALL, libraries)
    assert libraries == []


def test_calls_that_the_log_has_of_earlier_builds_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked(tmp_path, monkeypatch, "linux-amd64", f"{CALL} before.o")
    assert "before.o" not in linked(tmp_path, monkeypatch, "linux-amd64")
    with pytest.raises(CannotBuild, match=r"named 0 calls of ld\.lld for nodemanager, not one"):
        linked(tmp_path, monkeypatch, "linux-amd64", "nothing")


def test_links_of_parts_of_the_c_library_are_passed_over() -> None:
    assert linking.linker_call(f"{PART}\nnote\n{CALL}\n{PART}", "nodemanager") == CALL.split()


@pytest.mark.parametrize("said", ["", "warning: ld.lld is old\n", PART, f"{CALL}\n{CALL}\n"])
def test_what_is_not_one_call_is_refused(said: str) -> None:
    with pytest.raises(CannotBuild, match=r"look at linking\.py"):
        linking.linker_call(f"$ cc program.o\n{said}", "nodemanager")
