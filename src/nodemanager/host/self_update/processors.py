"""For which processor a program is: by its own header, as a kernel of 64 bits runs programs of 32 bits, too.

Raspberry Pi OS is such a host: its programs are for arm, and `uname -m` says aarch64.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.api.common.matching import architecture

_ELF: Final = b"\x7fELF"
_MAGIC_TO_MACHINE: Final = 20
"""Bytes of a header."""


class Processor(NamedTuple):
    """What the header of an executable says it is for."""

    bits: int
    machine: int


PROCESSORS: Final = {"amd64": Processor(64, 62), "arm64": Processor(64, 183), "arm": Processor(32, 40)}
"""Those that releases are for, as Kubernetes names them."""


def of_head(head: bytes) -> Processor | None:
    """Return for which processor an executable is, by its beginning; None = it is no executable."""
    if not head.startswith(_ELF):
        return None
    number = head[18:20] if head[5:6] == b"\x02" else head[19:17:-1]  # the order of bytes is its own
    return Processor(64 if head[4:5] == b"\x02" else 32, int.from_bytes(number, "big"))


def of_program(path: str, machine: str) -> str:
    """Return the architecture that a program is for; a script is for that of `uname -m`, the machine."""
    try:
        with Path(path).open("rb") as file:
            found = of_head(file.read(_MAGIC_TO_MACHINE))
    except OSError:
        found = None
    names = {processor: arch for arch, processor in PROCESSORS.items()}
    return architecture(machine) if found is None else names.get(found, architecture(machine))
