"""What an executable needs of the system that starts it, read from its headers.

So that no program is released that is for another processor, or is linked with a library that hosts may lack.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.release.sources import CannotBuild
from tools.release.targets import LARGEST, Target

MIB: Final = 1024 * 1024
MACHINES: Final = {"amd64": 62, "arm64": 183, "arm": 40}
LIBRARIES: Final = frozenset({"libc.so.7", "libm.so.5", "libthr.so.3", "libutil.so.9"})
"""What FreeBSD's base system has, in versions that have stayed the same since FreeBSD 14 or longer."""
_DYNAMIC, _INTERPRETER, _LOAD = 2, 3, 1
_NEEDED, _STRINGS = 1, 5


@dataclass(frozen=True, slots=True)
class Executable:
    """What the headers say."""

    machine: int
    interpreter: str
    """The program that loads libraries; empty in a static one."""
    needed: tuple[str, ...]
    """The libraries."""


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def read(path: Path) -> Executable:
    """Return what an executable for a little-endian processor says of itself."""
    data = path.read_bytes()
    if data[:4] != b"\x7fELF" or data[5] != 1:
        raise CannotBuild(f"cannot read {path}: it is no executable")
    machine = struct.unpack_from("<H", data, 18)[0]
    segments = _segments(data)
    interpreter = next((_text(data, each.offset) for each in segments if each.kind == _INTERPRETER), "")
    dynamic = next((each for each in segments if each.kind == _DYNAMIC), None)
    return Executable(machine, interpreter, _needed(data, dynamic, segments) if dynamic else ())


def check(path: Path, target: Target) -> None:
    """Raise unless a program is for its target, is small enough, and needs nothing that hosts may lack."""
    found, size = read(path), path.stat().st_size
    if size > LARGEST:
        raise CannotBuild(
            f"cannot release {path}: it has {size / MIB:.2f} MiB, and {LARGEST / MIB:g} is the goal;"
            " find what grew, or raise LARGEST in targets.py"
        )
    if found.machine != MACHINES[target.name.partition("-")[2]]:
        raise CannotBuild(
            f"cannot release {path}: it is for machine {found.machine} of ELF, not {target.name}"
        )
    allowed = frozenset() if target.is_static else LIBRARIES
    foreign = [name for name in found.needed if name not in allowed]
    if foreign or (target.is_static and found.interpreter):
        needs = ", ".join(foreign) or found.interpreter
        raise CannotBuild(f"cannot release {path}: it needs {needs}, which hosts may lack")


def _segments(data: bytes) -> list[_Segment]:
    wide = data[4] == 2
    start = struct.unpack_from("<Q" if wide else "<I", data, 32 if wide else 28)[0]
    size, count = struct.unpack_from("<HH", data, 54 if wide else 42)
    found = []
    for index in range(count):
        place = start + index * size
        if wide:
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, place)
        else:
            kind, offset, address, _, length = struct.unpack_from("<IIIII", data, place)
        found.append(_Segment(kind, offset, address, length))
    return found


def _needed(data: bytes, dynamic: _Segment, segments: list[_Segment]) -> tuple[str, ...]:
    word = "<qQ" if data[4] == 2 else "<iI"
    part = data[dynamic.offset : dynamic.offset + dynamic.size]
    entries = list(
        struct.iter_unpack(word, part[: len(part) // struct.calcsize(word) * struct.calcsize(word)])
    )
    strings = next((value for tag, value in entries if tag == _STRINGS), 0)
    for each in segments:
        if each.kind == _LOAD and each.address <= strings < each.address + each.size:
            base = each.offset + strings - each.address
            return tuple(_text(data, base + value) for tag, value in entries if tag == _NEEDED)
    return ()


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()
