"""SHA256SUMS: the digests of all that was made in a folder, by this run and by those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.release.sources import digest

NAME: Final = "SHA256SUMS"
SIGNATURE: Final = ".minisig"


def earlier(folder: Path) -> dict[str, str]:
    """Return what earlier runs made and is still there as they made it: digests by name."""
    file = folder / NAME
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    found = {name: said for said, _, name in (line.partition("  ") for line in lines)}
    # A line is text that somebody may have edited: it names a file of this folder, or nothing.
    return {
        name: said
        for name, said in found.items()
        if name == Path(name).name and (folder / name).is_file() and digest(folder / name) == said
    }


def write(folder: Path, files: Sequence[Path], kept: Mapping[str, str]) -> Path:
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
    target.write_text(text, encoding="utf-8")
    return target
