"""Tar archives that are the same whenever they are made: of apk, of FreeBSD's pkg, and plain ones."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from typing import Final

from tools.packages.contents import EXECUTABLE, Files, folders

OWNER: Final = "root"


def tar(
    files: Files,
    epoch: int,
    *,
    group: str = OWNER,
    with_folders: bool = True,
    is_part: bool = False,
    headers: Callable[[bytes], Mapping[str, str]] = lambda _: {},
) -> bytes:
    """Return files as an archive, in their order; `is_part`: more follows, so that its end is left out."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in folders(files) if with_folders else ():
            archive.addfile(_entry(path, EXECUTABLE, epoch, group, tarfile.DIRTYPE))
        for path, (data, mode) in files.items():
            entry = _entry(path, mode, epoch, group, tarfile.REGTYPE)
            entry.size = len(data)
            entry.pax_headers = dict(headers(data))
            archive.addfile(entry, io.BytesIO(data))
        end = archive.offset
    return written.getvalue()[:end] if is_part else written.getvalue()


def _entry(path: str, mode: int, epoch: int, group: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode, entry.mtime = kind, mode, epoch
    entry.uname, entry.gname = OWNER, group
    return entry
