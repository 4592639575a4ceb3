"""The files of an audit log: lines are appended, large files are put aside, old ones are removed.

A line is one write. Lines that the disk refuses are lost, which is logged once a minute.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

log = logging.getLogger("nodemanager.server.audit")
COMPLAIN_SECONDS: Final = 60.0
_STAMP: Final = "%Y-%m-%dT%H-%M-%S.%f"


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much is kept; 0 = no limit."""

    size: int = 50 << 20
    """Bytes of a file before it is put aside."""
    backups: int = 3
    """Files that were put aside."""
    age: timedelta = timedelta()


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class LogFile:
    """One file that grows, and those before it: audit.log, audit-2026-01-31T12-00-00.000000.log."""

    def __init__(self, path: Path, limits: LogLimits, now: Callable[[], datetime] = utc_now) -> None:
        """Raises OSError if there can be no such file."""
        self._path, self._limits, self._now = path, limits, now
        self._descriptor = -1
        self._size = 0
        self._lost = 0
        self._complained: datetime | None = None
        self._open()

    def append(self, line: bytes) -> None:
        """Write a line, whole or not at all."""
        try:
            if self._descriptor < 0:
                self._open()
            if self._limits.size and self._size and self._size + len(line) > self._limits.size:
                self._rotate()
            self._write(line)
        except OSError as error:
            self._lost += 1
            self._complain(f"{error.strerror or error}; requests go on, {self._lost} of them are not in it")

    def close(self) -> None:
        """Close the file; nothing waits to be written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, line: bytes) -> None:
        written = os.write(self._descriptor, line)
        if written < len(line):  # half a line would spoil the next one, too
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):  # its mode is not ours to change
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", str(self._path))
        os.fchmod(descriptor, 0o600)
        self.close()
        self._descriptor, self._size = descriptor, found.st_size

    def _rotate(self) -> None:
        """Put the file aside and begin a new one; where that cannot be done, the old one grows on."""
        aside = f"{self._path.stem}-{self._now().strftime(_STAMP)}{self._path.suffix}"
        try:
            self._path.rename(self._path.with_name(aside))
            self._open()
            self._remove_old()
        except OSError as error:
            self._complain(f"it cannot be put aside: {error.strerror or error}")

    def _remove_old(self) -> None:
        files = sorted(self._aside(), reverse=True)
        kept = files[: self._limits.backups] if self._limits.backups else files
        oldest = self._now() - self._limits.age
        for made, path in files:
            if (made, path) not in kept or (self._limits.age and made < oldest):
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()

    def _aside(self) -> list[tuple[datetime, Path]]:
        found = []
        for path in self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"):
            stamp = path.name.removeprefix(f"{self._path.stem}-").removesuffix(self._path.suffix)
            with contextlib.suppress(ValueError):  # not one of ours
                found.append((datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC), path))
        return found

    def _complain(self, why: str) -> None:
        now = self._now()
        if self._complained is None or (now - self._complained).total_seconds() >= COMPLAIN_SECONDS:
            self._complained = now
            log.error("cannot write the audit log %s: %s", self._path, why)
