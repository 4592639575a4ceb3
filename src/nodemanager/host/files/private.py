"""Folders that only we can enter, in directories that others may change.

A user who may write into a directory may rename, replace or link everything in it, at the very moment
between two calls of ours. They cannot touch the content of our own folder, held open: at most they
take its name away. So everything that gets its owner, mode and content step by step gets them in there,
and leaves it by one rename.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.host.files import writers

PREFIX: Final = ".nodemanager-"
"""The prefix of every temporary file of ours, so that those of a killed process are found and removed."""
OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MARK: Final = "trusted.nodemanager.path"
"""Says for which path a directory was made; only root can see and set it, and it moves with the directory."""
_ACL: Final = "system.posix_acl_access"
_ACLS: Final = (_ACL, "system.posix_acl_default")
_NO_ACL: Final = (errno.ENODATA, errno.ENOTSUP, errno.EINVAL)


class Intruded(HostError):
    """Another program put something else in place of a folder that we had just made."""


def temporary_name() -> str:
    """Return a name for a temporary file that cannot be guessed."""
    return PREFIX + writers.new_name()


class PrivateFolder:
    """One such folder; closing it removes it."""

    def __init__(self, above: int) -> None:
        self._above = os.dup(above)
        self.name = temporary_name()
        self.descriptor = -1
        try:
            os.mkdir(self.name, 0o700, dir_fd=above)
            self.descriptor = os.open(self.name, OPEN, dir_fd=above)
            _check_new(self.descriptor)
            remove_acls(self.descriptor)  # or what is made in it would inherit them
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove it, with whatever is still in it."""
        if self.descriptor >= 0:
            with contextlib.suppress(OSError):
                empty(self.descriptor)
            os.close(self.descriptor)
            self.descriptor = -1
        if self._above >= 0:
            with contextlib.suppress(OSError):  # it was renamed meanwhile: empty, it is no harm
                os.rmdir(self.name, dir_fd=self._above)
            os.close(self._above)
            self._above = -1


def _check_new(opened: int) -> None:
    """Raise unless this is the folder that we have just made, or one that is no different from it."""
    found = os.fstat(opened)
    ours = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
    if not ours or os.listdir(opened):
        raise Intruded(
            "cannot make a folder of our own there: somebody exchanges files in that directory just now;"
            " find out who writes there, and take the right to do so away"
        )


def empty(folder: int) -> None:
    """Remove what we have put into a folder of ours: files and links, and directories that are empty.

    Only what is named as we name it: somebody may have renamed another folder of root's to look like this.
    """
    for name in os.listdir(folder):
        if not name.startswith(PREFIX):
            continue
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def mark(opened: int, path: str) -> None:
    """Note that a directory is the one for a path; where that cannot be noted, it counts as a strange one."""
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(opened, _MARK, os.fsencode(path))


def is_marked(opened: int, path: str) -> bool:
    """Tell whether a directory is the one that was made for a path, and not one that was moved there."""
    if not hasattr(os, "getxattr"):
        return False
    try:
        return os.getxattr(opened, _MARK) == os.fsencode(path)
    except OSError:
        return False


def remove_acls(opened: int) -> None:
    """Remove all access control lists of a file or directory, so that only its mode counts."""
    if not hasattr(os, "removexattr"):
        return
    for name in _ACLS:
        try:
            os.removexattr(opened, name)
        except OSError as error:
            if error.errno not in _NO_ACL:
                raise


def has_acl(opened: int) -> bool:
    """Tell whether an access control list says more of a file or directory than its mode."""
    if not hasattr(os, "listxattr"):
        return False
    try:
        return _ACL in os.listxattr(opened)
    except OSError:
        return False
