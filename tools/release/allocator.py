"""musl's allocator, for static programs: that of the compiler rounds up to powers of two (ADR 38)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tools.release import sources
from tools.release.sources import Source
from tools.release.toolchain import Toolchain

OURS: Final = Path(__file__).resolve().parent / "malloc"
"""What it needs of the C library, and the functions that musl has elsewhere."""
THEIRS: Final = "src/malloc/mallocng"
FILES: Final = ("malloc", "free", "realloc", "aligned_alloc", "malloc_usable_size", "rest")
FLAGS: Final = (
    "-std=c99", "-D_GNU_SOURCE", "-Wno-macro-redefined", "-O2",
    "-ffreestanding",  # or a calloc that calls malloc and memset would be made to call calloc
)  # fmt: skip


def inputs() -> list[Path]:
    """Return the files that it is made of beside its sources."""
    return [Path(__file__), *sorted(OURS.iterdir())]


def objects(tools: Toolchain) -> list[str]:
    """Return what a program is linked with, so that it is found before that of the C library."""
    return [str(_folder(tools) / f"{name}.o") for name in FILES]


def build(tools: Toolchain, source: Source, archives: Path) -> None:
    """Compile it."""
    folder = _folder(tools)
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    whole = folder.parent / "musl"
    sources.unpack(sources.fetch(source, archives), whole)
    for file in (*whole.joinpath(THEIRS).iterdir(), *OURS.iterdir(), whole / "COPYRIGHT"):
        shutil.copy(file, folder)
    shutil.rmtree(whole)
    for name in FILES:
        tools.run(["cc", *FLAGS, "-c", f"{name}.c", "-o", f"{name}.o"], folder)


def _folder(tools: Toolchain) -> Path:
    return tools.folder / "allocator/malloc"
