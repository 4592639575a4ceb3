"""Makes writes survive a power cut: one file at a time, or everything on a filesystem at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

FEW = 8
"""Up to so many files are synced one by one; beyond, one sync of the filesystem is cheaper."""


class Unsynced:
    """Files and directories that were written and are not on disk yet; holds few of them open."""

    def __init__(self) -> None:
        self._few: list[int] = []
        self._devices: dict[int, int] = {}

    def add(self, descriptor: int) -> None:
        """Take over an open file or directory."""
        syncfs = _syncfs() if len(self._few) >= FEW else None
        if len(self._few) < FEW:
            self._few.append(descriptor)
        elif syncfs is None:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        else:
            replaced = self._devices.setdefault(os.fstat(descriptor).st_dev, descriptor)
            if replaced != descriptor:
                os.close(descriptor)

    def sync(self) -> None:
        """Return when everything that was added is on disk."""
        try:
            synced = set()
            for device, descriptor in self._devices.items():
                if syncfs := _syncfs():
                    syncfs(descriptor)
                    synced.add(device)
            for descriptor in self._few:
                if os.fstat(descriptor).st_dev not in synced:
                    os.fsync(descriptor)
        finally:
            self.close()

    def close(self) -> None:
        """Give back all descriptors."""
        for descriptor in (*self._few, *self._devices.values()):
            os.close(descriptor)
        self._few, self._devices = [], {}


@lru_cache(maxsize=1)
def _syncfs() -> Callable[[int], None] | None:
    """Return Linux's syncfs, which the standard library lacks; None elsewhere."""
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if function is None:
        return None

    def call(descriptor: int) -> None:
        if function(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return call
