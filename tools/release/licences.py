"""The licences of what is in the program and not ours, to go with it wherever it goes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools import deb
from tools.release import toolchain
from tools.release.sbom import Component
from tools.release.sources import CannotBuild
from tools.release.toolchain import Toolchain

LIBRARIES: Final = {
    "python": "LICENSE", "openssl": "LICENSE.txt", "zlib": "LICENSE", "libyaml": "License",
}  # fmt: skip
"""Where each has its licence, below the folder that it is built in."""
BUNDLED: Final = {
    "hacl-star": "Modules/_hacl/Hacl_Hash_SHA2.c", "libb2": "Modules/_blake2/impl/blake2b.c",
    "mpdecimal": "Modules/_decimal/libmpdec/mpdecimal.c",
}  # fmt: skip
"""Which file of the sources of Python begins with the licence of what others wrote of it."""
INCORPORATED: Final = "Doc/license.rst"
"""Licences of what is in single files of Python, such as its random numbers."""
MUSL: Final = "lib/libc/musl/COPYRIGHT"
ZIG: Final = "LICENSE"
_COMMENT: Final = re.compile(r"\s*/\*(.*?)\*/", re.DOTALL)
_STARS: Final = re.compile(r"^ \* ?", re.MULTILINE)


def collect(tools: Toolchain, site: Path, parts: Iterable[Component]) -> dict[str, bytes]:
    """Return all of them, by the names that they have in packages; raises where a part has none."""
    python, zig = tools.folder / "python", toolchain.zig_program().parent
    paths = {f"{name}.LICENSE": tools.folder / name / file for name, file in LIBRARIES.items()}
    paths |= {"python.INCORPORATED": python / INCORPORATED, "compiler-rt.LICENSE": zig / ZIG}
    if tools.target.is_static:
        paths["musl.COPYRIGHT"] = zig / MUSL
    for path in sorted(site.glob("*.dist-info/**/*")):
        name = deb.licence_name(path.relative_to(site).as_posix()) if path.is_file() else ""
        if name:
            paths[name] = path
    bundled = {f"{name}.LICENSE": python / file for name, file in BUNDLED.items()}
    missing = [str(path) for path in (*paths.values(), *bundled.values()) if not path.is_file()]
    if missing:
        raise CannotBuild(f"cannot build a package: there is no licence at {missing[0]}; correct licences.py")
    found = {name: path.read_bytes() for name, path in paths.items()}
    found |= {name: _beginning(path) for name, path in bundled.items()}
    _check(tools, parts, found)
    return dict(sorted(found.items()))


def _beginning(path: Path) -> bytes:
    """Return the licence that a source in C begins with, as text."""
    comment = _COMMENT.match(path.read_text(encoding="utf-8"))
    if comment is None or "copyright" not in comment[1].lower():
        raise CannotBuild(
            f"cannot build a package: {path} does not begin with a licence any more; correct licences.py"
        )
    text = textwrap.dedent(_STARS.sub("", comment[1]))
    return f"{text.strip()}\n".encode()


def _check(tools: Toolchain, parts: Iterable[Component], names: Iterable[str]) -> None:
    """Raise unless each part that is linked in has its text."""
    there = {_plain(name.rpartition(".")[0]) for name in names}
    for part in parts:
        name = part.name.partition(" (")[0]  # of the compiler
        linked = tools.target.is_static or name != "musl"
        if linked and not there & {_plain(name), _plain(f"{name}-{part.version}")}:
            raise CannotBuild(
                f"cannot build a package: the licence of {part.name} is not collected; look at licences.py"
            )


def _plain(name: str) -> str:
    """Return a name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
