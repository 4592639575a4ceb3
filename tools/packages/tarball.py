"""A tar for hosts without such a package manager: to be unpacked below /usr/local."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

from nodemanager.host.init.systems import SYSTEMS
from tools.packages import archives, contents
from tools.packages.contents import PLAIN, Files, Layout, Program

NAMES: Final = {"systemd": "nodemanager.service", "openrc": "nodemanager.openrc", "rc.d": "nodemanager.rc"}
"""What the files of the init systems are called; install-service writes them to where they belong."""


def build(program: Program, folder: Path) -> Path:
    """Build the archive, and return where it is."""
    name = f"nodemanager-{program.version}-{program.target}"
    files: Files = {f"{name}/{path}": content for path, content in files_of(program).items()}
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.tar.gz"
    group = "wheel" if program.target.startswith("freebsd-") else archives.OWNER
    target.write_bytes(
        gzip.compress(archives.tar(files, program.epoch, group=group), program.effort, mtime=0)
    )
    return target


def files_of(program: Program) -> Files:
    """Return the files, below the folder that they are unpacked to."""
    init = SYSTEMS["rc.d" if program.target.startswith("freebsd-") else "systemd"]
    layout = Layout(
        init, "bin/nodemanager", "", "share/man/man8", "share/licenses/nodemanager",
        "share/zsh/site-functions", "share",
    )  # fmt: skip
    files = layout.shared(program)
    for system, name in NAMES.items():
        text = SYSTEMS[system].unit("/usr/local/bin/nodemanager", written=contents.WRITTEN)
        files[f"share/nodemanager/{name}"] = (text.encode(), PLAIN)
    return dict(sorted(files.items()))
