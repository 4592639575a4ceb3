"""The compiler for every target: zig from PyPI, with its C libraries, as cc, ar and ranlib in PATH."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Final

from tools.release.sources import CannotBuild
from tools.release.targets import Target

FLAGS: Final = (
    "-g0", "-fPIE", "-ffunction-sections", "-fdata-sections", "-fstack-protector-strong",
    "-fno-sanitize=undefined", "-Wno-date-time",
)  # fmt: skip
EPOCH: Final = 315532800
"""1980: what is compiled is kept over commits, so it knows no day."""
JOBS: Final = 2
LAST_LINES: Final = 25


@dataclass(frozen=True, slots=True)
class Toolchain:
    """How to compile for a target; builds are made in folders of their own below `folder`."""

    target: Target
    folder: Path
    jobs: int = JOBS

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a build: nothing of the user's decides what comes out."""
        cache = str(self.folder.parent / "zig")
        return {
            "PATH": f"{self.folder / 'tools'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder), "LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "0",
            "PKG_CONFIG": "/bin/false",
            "SOURCE_DATE_EPOCH": str(EPOCH), "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache,
            "CC": "cc", "AR": "ar", "RANLIB": "ranlib",
        }  # fmt: skip

    def prepare(self) -> None:
        """Write the programs that configure scripts call."""
        zig = zig_program()
        folder = self.folder / "tools"
        folder.mkdir(parents=True, exist_ok=True)
        flags = " ".join(("-target", self.target.zig, *self.target.flags, *FLAGS))
        for name, rest in (("cc", f"cc {flags}"), ("ar", "ar"), ("ranlib", "ranlib")):
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {zig} {rest} "$@"\n', encoding="utf-8")
            script.chmod(0o755)

    def run(self, argv: Sequence[str], folder: Path, **more: str) -> None:
        """Run a step of a build, with what it says in a log beside it."""
        log = self.folder / f"{folder.name}.log"
        with log.open("ab") as file:
            file.write(f"$ {' '.join(argv)}\n".encode())
            file.flush()
            done = subprocess.run(  # noqa: S603 - an argv
                ["/usr/bin/env", "nice", "-n", "10", *argv], cwd=folder, env={**self.environ, **more},
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False,
            )  # fmt: skip
        if done.returncode != 0:
            end = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:])
            raise CannotBuild(
                f"cannot build {folder.name} for {self.target.name}: {argv[0]} failed; see {log}\n{end}"
            )

    def make(self, folder: Path, *goals: str) -> None:
        """Run make."""
        self.run(["make", "-s", f"-j{self.jobs}", *goals], folder)


def zig_program() -> Path:
    """Return the compiler."""
    found = util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise CannotBuild(
            "cannot build: there is no compiler; run make .venv/.release, which installs ziglang"
        )
    return Path(found.origin).parent / "zig"


def zig_version() -> str:
    """Return the version of the compiler."""
    return metadata.version("ziglang")
