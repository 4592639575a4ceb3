"""The licences of what is in the program and not ours, to go with it wherever it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools import deb
from tools.release import toolchain
from tools.release.sources import CannotBuild
from tools.release.toolchain import Toolchain

LIBRARIES: Final = {
    "python": "LICENSE", "openssl": "LICENSE.txt", "zlib": "LICENSE", "libyaml": "License",
}  # fmt: skip
"""Where each has its licence, below the folder that it is built in."""
MUSL: Final = "lib/libc/musl/COPYRIGHT"


def collect(tools: Toolchain, site: Path) -> dict[str, bytes]:
    """Return all of them, by the names that they have in packages."""
    paths = {f"{name}.LICENSE": tools.folder / name / file for name, file in LIBRARIES.items()}
    if tools.target.is_static:
        paths["musl.COPYRIGHT"] = toolchain.zig_program().parent / MUSL
    for path in sorted(site.glob("*.dist-info/**/*")):
        name = deb.licence_name(path.relative_to(site).as_posix()) if path.is_file() else ""
        if name:
            paths[name] = path
    missing = [str(path) for path in paths.values() if not path.is_file()]
    if missing:
        raise CannotBuild(f"cannot build a package: there is no licence at {missing[0]}; correct licences.py")
    return {name: path.read_bytes() for name, path in sorted(paths.items())}
