"""What the program is built for, and what each part of it calls that."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Final

LARGEST: Final = 25 * 1024 * 1024
"""Bytes that a program may have; one that is larger is not released."""


@dataclass(frozen=True, slots=True)
class Target:
    """A system and a processor."""

    name: str
    """As Kubernetes says it, with a dash: linux-amd64."""
    zig: str
    """The target of the compiler: processor, system, C library."""
    openssl: str
    """The target of OpenSSL's Configure, which chooses its assembler by it."""
    host: str
    """The --host of configure scripts."""
    flags: tuple[str, ...] = ()
    """More for the compiler."""

    @property
    def is_static(self) -> bool:
        """Whether nothing of the system is linked when it starts; FreeBSD promises no stable system calls."""
        return self.name.startswith("linux-")

    @property
    def is_native(self) -> bool:
        """Whether this machine runs it."""
        return platform.system() == "Linux" and self.name == f"linux-{_NAMES.get(platform.machine())}"


_NAMES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
TARGETS: Final = {
    target.name: target
    for target in (
        Target("linux-amd64", "x86_64-linux-musl", "linux-x86_64", "x86_64-linux-musl"),
        Target("linux-arm64", "aarch64-linux-musl", "linux-aarch64", "aarch64-linux-musl"),
        Target(
            "linux-arm",
            "arm-linux-musleabihf",
            "linux-armv4",
            "arm-linux-musleabihf",
            ("-mcpu=generic+v7a+vfp3d16",),
        ),
        Target("freebsd-amd64", "x86_64-freebsd", "BSD-x86_64", "x86_64-unknown-freebsd14"),
        Target("freebsd-arm64", "aarch64-freebsd", "BSD-aarch64", "aarch64-unknown-freebsd14"),
    )
}


def native() -> Target:
    """Return the target that this machine runs: its Python compiles the modules of all."""
    found = next((target for target in TARGETS.values() if target.is_native), None)
    if found is None:
        machine = f"{platform.system()} on {platform.machine()}"
        raise LookupError(
            f"cannot build on {machine}: it runs none of the targets; use Linux on amd64 or arm64"
        )
    return found
