"""Files that begin as executables do, for what reads no more of one than its headers."""

from __future__ import annotations

import struct
from pathlib import Path


def executable(
    path: Path, machine: int, needed: tuple[str, ...] = (), *, wide: bool = True, loader: str = ""
) -> Path:
    """Write the headers of one: a segment that is loaded, its libraries, and the program that loads them."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in needed) + loader.encode() + b"\0"
    header, entry, word = (64, 56, "<qQ") if wide else (52, 32, "<iI")
    place = header + 3 * entry
    tags = [(1, 1 + sum(len(name) + 1 for name in needed[:index])) for index in range(len(needed))]
    base = 0x400000
    dynamic = b"".join(struct.pack(word, *tag) for tag in (*tags, (5, base + place), (0, 0)))
    segments = [(1, place, len(strings)), (2, place + len(strings), len(dynamic) if needed else 0)]
    segments.append((3 if loader else 0, place + len(strings) - len(loader) - 1, len(loader) + 1))
    if not needed:
        segments[1] = (0, 0, 0)
    table = b""
    for kind, offset, size in segments:
        if wide:
            table += struct.pack("<IIQQQQQQ", kind, 0, offset, base + offset, 0, size, size, 1)
        else:
            table += struct.pack("<IIIIIIII", kind, offset, base + offset, 0, size, size, 0, 1)
    head = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9) + struct.pack("<HHI", 3, machine, 1)
    head += (
        struct.pack("<QQQIHHH", 0, header, 0, 0, header, entry, 3)
        if wide
        else struct.pack("<IIIIHHH", 0, header, 0, 0, header, entry, 3)
    )
    path.write_bytes(head.ljust(header, b"\0") + table + strings + dynamic)
    return path
