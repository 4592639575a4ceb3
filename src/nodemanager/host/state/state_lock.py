"""One process at a time changes a host: the agent, or a user's `apply`."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os

from nodemanager.host.base import Busy, HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files

log = logging.getLogger(__name__)
NAME = "lock"


class StateLock:
    """Held from `take` to `release`, or until the process ends, however it does."""

    def __init__(self, tree: Tree, folder: str, name: str = NAME) -> None:
        self._tree = tree
        self._folder = folder
        self._name = name
        self._descriptor = -1

    def take(self, *, make: bool) -> bool:
        """Take it and return True, or raise Busy that says who has it; False = it was ours already.

        Also False where there is no folder to lock, and `make` does not say to make one or it cannot
        be made: then nothing can be recorded, so nothing is changed that would need a record.
        """
        if self._descriptor >= 0:
            return False
        try:
            if make:
                state_files.prepare_folder(self._tree, self._folder)
            place = self._tree.place(f"{self._folder}/{self._name}")
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(place.name, flags, 0o600, dir_fd=place.folder)
        except OSError as error:
            log.debug("no lock for %s: %s", self._folder, error)
            return False
        try:
            self._lock(descriptor)
        except BaseException:
            os.close(descriptor)  # else our own lock would be in our way for as long as we run
            raise
        self._descriptor = descriptor
        return True

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise Busy(
                f"cannot change this host: another nodemanager (process {holder}) is at work on it; stop it"
                " first, or let it do the work"
            ) from None
        except OSError as error:
            where = self._tree.outside(f"{self._folder}/{self._name}")
            raise HostError(f"cannot lock {where}: {error.strerror or error}") from error
        with contextlib.suppress(OSError):  # a full disk: only people need to know who has it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give it back."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1
