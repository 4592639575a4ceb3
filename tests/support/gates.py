"""A gate that a program of a test waits at, until the test opens it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self


class Gate:
    """A pipe with a name. Our end is open all the time, so nobody waits for the other to come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "gate"
        os.mkfifo(self._path)
        self.wait = f"read -r line < {self._path}"
        """Waits, in a shell."""

    def __enter__(self) -> Self:
        self._end = os.open(self._path, os.O_RDWR)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        os.close(self._end)

    def open(self) -> None:
        """Let one program pass."""
        os.write(self._end, b"go\n")
