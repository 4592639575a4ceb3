"""The last link of a program, with what the compiler's own driver does not hand to its linker.

Two tables took 1.9 MiB: how to unwind the stack of functions in C, which nothing in the program does: it has
no C++, and Python keeps the frames that its tracebacks show itself; and relocations at 24 bytes each, which
RELR has in bits. musl applies both kinds, and so does the loader of FreeBSD 14.0 and newer (its commit
a7d137fcbcac of October 2021), which is what our programs for FreeBSD need anyway.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from tools.release.sources import CannotBuild
from tools.release.toolchain import Toolchain, zig_program

SHARED: Final = re.compile(r"/lib[^/]*\.so[.0-9]*$")
LINKER: Final = "ld.lld"
SCRIPT: Final = "without_unwinding.ld"
DISCARD: Final = "SECTIONS { /DISCARD/ : { *(.eh_frame) } } INSERT AFTER .text;\n"
"""INSERT keeps the linker's own layout for all the rest."""
SMALLER: Final = ("--no-eh-frame-hdr", "-T", SCRIPT, "--pack-dyn-relocs=relr")


def link(tools: Toolchain, argv: Sequence[str], folder: Path, output: str) -> list[Path]:
    """Link as the compiler does, and once more, smaller, by the same call of the linker.

    Return the libraries of the system that it was linked with, none for a static one.
    """
    log = tools.folder / f"{folder.name}.log"
    before = log.stat().st_size if log.exists() else 0
    tools.run([*argv, "-o", output], folder, ZIG_VERBOSE_LINK="1")
    call = linker_call(log.read_bytes()[before:].decode(errors="replace"), output)
    folder.joinpath(SCRIPT).write_text(DISCARD, encoding="utf-8")
    tools.run([str(zig_program()), *call, *SMALLER], folder)
    return [] if tools.target.is_static else [Path(word) for word in call if SHARED.search(word)]


def linker_call(said: str, output: str) -> list[str]:
    """Return how the compiler called its linker for a file, from what it said.

    It also links parts of its C library, where they are not in its cache yet.
    """
    calls = [line.split() for line in said.splitlines() if line.startswith(f"{LINKER} ")]
    made = [call for call in calls if ("-o", output) in pairwise(call)]
    if len(made) != 1:
        raise CannotBuild(
            f"cannot link: the compiler named {len(made)} calls of {LINKER} for {output}, not one; "
            "look at linking.py"
        )
    return made[0]
