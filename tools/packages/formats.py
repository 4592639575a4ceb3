"""Which packages are made for which target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools import deb
from tools.packages import apk, freebsd, image, rpm, tarball
from tools.packages.contents import Program

Build = Callable[[Program, Path], Path]
FORMATS: Final[dict[str, tuple[Build, ...]]] = {
    "linux": (deb.build_static, rpm.build, apk.build, tarball.build, image.build),
    "freebsd": (freebsd.build, tarball.build),
}
"""By the system of a target."""


def of(target: str) -> tuple[Build, ...]:
    """Return what builds the packages of a target."""
    return FORMATS[target.partition("-")[0]]
