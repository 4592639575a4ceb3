"""What a dynamically linked program wants of libraries, and what these have: read from their dynamic symbols.

The linker lets weak symbols be missing, and libraries be named that it took from elsewhere. A loader would
find out, on hosts that nobody here has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.release import elf
from tools.release.sources import CannotBuild

_DYNSYM, _VERSYM, _VERDEF, _VERNEED = 11, 0x6FFFFFFF, 0x6FFFFFFD, 0x6FFFFFFE
_LOCAL: Final = 0
_INDEX: Final = 0x7FFF
"""The bits of a version that are its number; the other one hides it from programs that are linked anew."""
_UNVERSIONED: Final = 1
_TOLD: Final = 10


@dataclass(frozen=True, slots=True)
class Symbols:
    """The dynamic symbols of a file, as `name@version`, or as `name` where it has none."""

    wanted: frozenset[str]
    defined: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int
    count: int


def read(path: Path) -> Symbols:
    """Return what a file with addresses of 64 bits wants and has."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise CannotBuild(f"cannot read the symbols of {path}: it is no file of ELF with 64 bits")
    sections = _sections(data)
    by_kind = {each.kind: each for each in sections}
    table = by_kind.get(_DYNSYM)
    if table is None:
        raise CannotBuild(f"cannot read the symbols of {path}: it has no table of them")
    versions = _versions(data, sections, by_kind)
    numbers = by_kind.get(_VERSYM)
    names = sections[table.link].offset
    wanted: set[str] = set()
    defined: set[str] = set()
    for index in range(1, table.size // 24):
        name, info, _, section = struct.unpack_from("<IBBH", data, table.offset + 24 * index)
        if info >> 4 == _LOCAL:
            continue
        number = struct.unpack_from("<H", data, numbers.offset + 2 * index)[0] if numbers else _UNVERSIONED
        version = versions.get(number & _INDEX, "")
        text = _text(data, names + name) + (f"@{version}" if version else "")
        (defined if section else wanted).add(text)
    return Symbols(frozenset(wanted), frozenset(defined))


def check(path: Path, linked: Sequence[Path]) -> None:
    """Raise unless the libraries that a program names, as it was linked with them, have all that it wants."""
    needed = elf.read(path).needed
    libraries = {each.name: each for each in linked}
    if missing := [name for name in needed if name not in libraries]:
        raise CannotBuild(f"cannot release {path}: it needs {missing[0]}, with which it was not linked")
    found = frozenset[str]().union(*(read(libraries[name]).defined for name in needed))
    if lacking := sorted(read(path).wanted - found):
        more = f" and {len(lacking) - _TOLD} more" if len(lacking) > _TOLD else ""
        raise CannotBuild(
            f"cannot release {path}: it wants {', '.join(lacking[:_TOLD])}{more}, which none of"
            f" {', '.join(needed)} has"
        )


def _sections(data: bytes) -> list[_Section]:
    start = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    found = []
    for index in range(count):
        row = struct.unpack_from("<IIQQQQIIQQ", data, start + index * size)
        found.append(_Section(row[1], row[4], row[5], row[6], row[7]))
    return found


def _versions(data: bytes, sections: Sequence[_Section], by_kind: dict[int, _Section]) -> dict[int, str]:
    """Return the versions that symbols have, by the numbers that stand for them in this file."""
    found = {}
    if needs := by_kind.get(_VERNEED):
        for place, (_, count, _, first, _) in _chain(data, needs.offset, needs.count, "<HHIII"):
            for _, (_, _, number, name, _) in _chain(data, place + first, count, "<IHHII"):
                found[number & _INDEX] = _text(data, sections[needs.link].offset + name)
    if defines := by_kind.get(_VERDEF):
        for place, (_, flags, number, _, _, first, _) in _chain(
            data, defines.offset, defines.count, "<HHHHIII"
        ):
            name = struct.unpack_from("<I", data, place + first)[0]
            if not flags & 1:  # that is the file itself, and the version of symbols without one
                found[number & _INDEX] = _text(data, sections[defines.link].offset + name)
    return found


def _chain(data: bytes, place: int, count: int, form: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the rows of a list whose last field says how far it is to the next."""
    for _ in range(count):
        row = struct.unpack_from(form, data, place)
        yield place, row
        place += row[-1]


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()
