"""One process at a time changes a host: the agent, or somebody's `apply`."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os

from nodemanager.host import state_files
from nodemanager.host.base import Busy
from nodemanager.host.tree import Tree

log = logging.getLogger(__name__)
NAME = "lock"


class StateLock:
    """Held from `take` to `release`, or until the process ends, however it does."""

    def __init__(self, tree: Tree, folder: str) -> None:
        self._tree = tree
        self._folder = folder
        self._descriptor = -1

    def take(self) -> None:
        """Take it, or raise Busy that says who has it.

        Where the folder cannot be made nothing can be recorded either, so nothing is changed that
        would need a record: whoever may not write there needs no lock.
        """
        try:
            state_files.prepare_folder(self._tree, self._folder)
            place = self._tree.place(f"{self._folder}/{NAME}")
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(place.name, flags, 0o600, dir_fd=place.folder)
        except OSError as error:
            log.debug("no lock for %s: %s", self._folder, error)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise Busy(
                f"cannot change this host: another nodemanager (process {holder}) is at work on it; stop it"
                " first, or let it do the work"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1
