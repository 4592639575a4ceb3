"""Makes writes survive a power cut: one file at a time, or everything on a filesystem at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import lru_cache

from nodemanager.native import libc

FEW = 8
"""Up to this number files are synced one by one; beyond, one sync of the filesystem is cheaper."""


class Unsynced:
    """Files and directories that were written and are not on disk yet; holds few of them open."""

    def __init__(self) -> None:
        self._few: list[int] = []
        self._devices: dict[int, int] = {}

    def add(self, descriptor: int) -> int:
        """Take over an open file or directory, also in failure; return the device that it is on."""
        kept = False
        try:
            device = os.fstat(descriptor).st_dev
            if len(self._few) < FEW:
                self._few.append(descriptor)
                kept = True
            elif not _has_syncfs():
                os.fsync(descriptor)
            else:
                kept = self._devices.setdefault(device, descriptor) == descriptor
        finally:
            if not kept:
                os.close(descriptor)
        return device

    def sync(self) -> dict[int, OSError]:
        """Return when everything is on disk that can be: the devices that failed, and why they did."""
        failed: dict[int, OSError] = {}
        few, self._few = self._few, []
        devices, self._devices = self._devices, {}
        for device, descriptor in devices.items():
            _try(libc.syncfs, descriptor, device, failed)
        for descriptor in few:
            device = os.fstat(descriptor).st_dev
            _try(_nothing if device in devices else os.fsync, descriptor, device, failed)
        return failed

    def close(self) -> None:
        """Give back all descriptors."""
        few, self._few = self._few, []
        devices, self._devices = self._devices, {}
        for descriptor in (*few, *devices.values()):
            os.close(descriptor)


def _try(sync: Callable[[int], None], descriptor: int, device: int, failed: dict[int, OSError]) -> None:
    try:
        sync(descriptor)
    except OSError as error:
        failed.setdefault(device, error)
    finally:
        os.close(descriptor)


def _nothing(descriptor: int) -> None:
    """Its whole filesystem is synced already."""


@lru_cache(maxsize=1)
def _has_syncfs() -> bool:
    """Tell whether a whole filesystem can be synced, as on Linux."""
    try:
        libc.syncfs(-1)
    except OSError as error:
        return error.errno != errno.ENOSYS
    return True
