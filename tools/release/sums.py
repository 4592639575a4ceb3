"""SHA256SUMS: the digests of what this run, and those before it, made of the same sources in a folder.

Which sources these are is noted beside it: a package does not say it itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.release.revision import Revision
from tools.release.sources import digest

NAME: Final = "SHA256SUMS"
SOURCES: Final = f"{NAME}.sources"
SIGNATURE: Final = ".minisig"


def is_of(folder: Path, revision: Revision) -> bool:
    """Tell whether what is listed was made of these sources."""
    file = folder / SOURCES
    return file.is_file() and file.read_bytes() == revision.packed()


def earlier(folder: Path, revision: Revision) -> dict[str, str]:
    """Return what earlier runs made of these sources and is there as they made it: digests by name."""
    file = folder / NAME
    if not is_of(folder, revision):
        return {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    found = {name: said for said, _, name in (line.partition("  ") for line in lines)}
    # A line is text that somebody may have edited: it names a file of this folder, or nothing.
    return {
        name: said
        for name, said in found.items()
        if name == Path(name).name and (folder / name).is_file() and digest(folder / name) == said
    }


def write(folder: Path, files: Sequence[Path], kept: Mapping[str, str], revision: Revision) -> Path:
    """Write the list, with what is kept of earlier runs; a signature of another content is removed."""
    made = {file.name: digest(file) for file in files}
    listed = {**kept, **made}
    text = "".join(f"{said}  {name}\n" for name, said in sorted(listed.items()))
    target = folder / NAME
    for name, said in made.items():
        if kept.get(name) != said:
            folder.joinpath(f"{name}{SIGNATURE}").unlink(missing_ok=True)
    if not target.is_file() or target.read_text(encoding="utf-8") != text:
        folder.joinpath(f"{NAME}{SIGNATURE}").unlink(missing_ok=True)
    sources = folder / SOURCES
    if not is_of(folder, revision):
        sources.unlink(missing_ok=True)  # the new list is never one of the old sources
    target.write_text(text, encoding="utf-8")
    sources.write_bytes(revision.packed())
    return target
