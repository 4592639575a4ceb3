"""All paths of a host, below one root; symlinks of other users are not followed on the way.

The agent writes as root into directories that others may write into, too. So a path is walked
component by component with directory descriptors: what was checked is what is used. A symlink
on the way is followed only if root (or the user who runs us) made it and no other user could have put it
there, and never out of the root: absolute targets and `..` are taken as a process that was chrooted
there would take them.

    TreeError (a HostError)
    +-- NoParent      a directory on the way does not exist
    +-- Obstructed    something on the way is no directory, or a link that is not followed
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from nodemanager.host.base import HostError, root_remedy
from nodemanager.host.files import private
from nodemanager.plan.facts import ANYBODY, NOBODY

MAX_LINKS = 40
MAX_OPEN = 128
"""Directories kept open at a time; a process may have 1,024 files open by default."""
NEW_PARENT = 0o755
_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)


class TreeError(HostError):
    """A path cannot be reached."""


class NoParent(TreeError, FileNotFoundError):
    """A directory on the way does not exist."""


class Obstructed(TreeError):
    """Something on the way is no directory, or a link that is not to be followed."""


Passing = Callable[[int, str, bool], None]
"""Called with every name on the way before it is looked up, and its directory; and once more, with True, when
it is no directory, so that the owner of a link matters."""


class Place(NamedTuple):
    """Where a path is: a name in an open directory."""

    folder: int
    """Descriptor of the directory; valid until `Tree.forget`."""
    name: str
    path: str
    writer: int = NOBODY
    """The user, besides those we trust, who can replace what is at the path (see `FileFact.writer`)."""


def is_running(root: str) -> bool:
    """Tell whether a root is that of the running system: our own, or that of PID 1, seen from a container.

    Only a container that shares the host's process IDs can know: otherwise PID 1 is its own.
    """
    try:
        return root == "/" or Path(root).samefile("/proc/1/root")
    except OSError:
        return False


class Tree:
    """The paths below a root."""

    def __init__(self, root: str = "/") -> None:
        self.root = str(Path(root).resolve())
        try:
            self._top = os.open(self.root, os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", 0))
        except OSError as error:
            raise TreeError(f"cannot use root {root}: {error.strerror}") from error
        self._open: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Open directories, with the user who may replace entries in each."""
        self._trusted = {0, os.geteuid()}
        self.running = is_running(self.root)
        """Whether the root is a running system, in which services can be started, and no image."""

    def close(self) -> None:
        """Give back all descriptors."""
        self.forget()
        if self._top >= 0:
            os.close(self._top)
            self._top = -1

    def forget(self) -> None:
        """Close the directories that were walked, so that the next walk sees what has become of them."""
        while self._open:
            os.close(self._open.popitem()[1][0])

    def outside(self, path: str) -> str:
        """Return how a path is called outside of the root, for messages and for programs that run there."""
        return path if self.root == "/" else self.root + path

    def place(self, path: str, *, make_parents: bool = False) -> Place:
        """Return where a path is, everything but its last component resolved."""
        above, _, name = path.rstrip("/").rpartition("/")
        if not path.startswith("/") or not name or name in (".", ".."):
            raise TreeError(errno.EINVAL, f"cannot use path {path!r}: it names no entry of a directory")
        folder, writer = self._entered(above or "/", make=make_parents)
        return Place(folder, name, path, writer)

    def folder(self, path: str, *, make: bool = False) -> int:
        """Return a descriptor of a directory; it is ours to close, and good until `forget`."""
        return self._entered(path, make=make)[0]

    def _entered(self, path: str, *, make: bool) -> tuple[int, int]:
        known = self._open.get(path)
        if known is not None:
            self._open.move_to_end(path)
            return known
        walk = _Walk(self._top, self._trusted, path, make=make)
        self._open[path] = found = walk.run(), walk.writer
        if len(self._open) > MAX_OPEN:
            os.close(self._open.popitem(last=False)[1][0])
        return found

    def walk(self, path: str, passing: Passing | None = None) -> int:
        """Walk to a directory and return it open, for the caller to close; others may walk meanwhile."""
        return _Walk(self._top, self._trusted, path, make=False, passing=passing).run()

    @contextmanager
    def readable(self, folder: int) -> Iterator[int]:
        """Open a directory that was found by walking for what a walk cannot do: list and sync."""
        opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield opened
        finally:
            os.close(opened)


class _Walk:
    """The way to one directory; all descriptors but the last are closed at its end."""

    def __init__(
        self, top: int, trusted: set[int], path: str, *, make: bool, passing: Passing | None = None
    ) -> None:
        self._trusted = trusted
        self._path = path
        self._make = make
        self._passing = passing
        self._ahead = _components(path)[::-1]
        self._behind = [os.dup(top)]
        self._passed = {self._writer(top)}
        self._links = 0

    @property
    def writer(self) -> int:
        """The user, besides those we trust, who can replace the reached directory or an entry of it."""
        users = self._passed - {NOBODY}
        return users.pop() if len(users) == 1 else ANYBODY if users else NOBODY

    def _writer(self, folder: int, *, sticky: bool = True) -> int:
        """Return who can replace entries of a directory; if it is sticky and ours, no other user can."""
        found = os.fstat(folder)
        if found.st_mode & 0o022 and not (sticky and found.st_mode & stat.S_ISVTX):
            return ANYBODY
        return NOBODY if found.st_uid in self._trusted else found.st_uid

    def run(self) -> int:
        try:
            while self._ahead:
                self._step(self._ahead.pop())
                self._passed.add(self._writer(self._behind[-1]))
            # In the last directory, a sticky bit does not prevent others from adding new entries.
            self._passed.add(self._writer(self._behind[-1], sticky=False))
            return self._behind.pop()
        finally:
            for descriptor in self._behind:
                os.close(descriptor)

    def _step(self, name: str) -> None:
        if name == "..":
            if len(self._behind) > 1:
                os.close(self._behind.pop())
            return
        here = self._behind[-1]
        if self._passing:
            self._passing(here, name, False)
        try:
            self._behind.append(os.open(name, _WALK, dir_fd=here))
        except FileNotFoundError:
            self._missing(name)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise self._obstructed(name, f"{error.strerror or name}{root_remedy(error)}") from error
            self._not_a_directory(name)

    def _missing(self, name: str) -> None:
        if not self._make:
            raise NoParent(f"cannot reach {self._path}: {name} does not exist")
        try:
            made = make_folder(self._behind[-1], name, NEW_PARENT, writer=self._writer_here())
            self._behind.append(made)
        except FileExistsError:  # another process was faster; the next look shows what it made
            self._make = False
            self._step(name)
            self._make = True
        except OSError as error:
            raise self._obstructed(name, error.strerror or "", "cannot make") from error

    def _writer_here(self) -> int:
        here = self._writer(self._behind[-1], sticky=False)
        return self.writer if here == NOBODY else here

    def _not_a_directory(self, name: str) -> None:
        """Follow a link of a user we trust; everything else is an obstacle."""
        here = self._behind[-1]
        if self._passing:
            self._passing(here, name, True)
        try:
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            if not stat.S_ISLNK(found.st_mode):
                raise self._obstructed(name, f"{name} is not a directory")
            if found.st_uid not in self._trusted:
                raise self._foreign(name, f"made by user {found.st_uid}")
            if not _guarded(os.fstat(here), self._trusted):
                raise self._foreign(name, "in a directory that others may change")
            target = os.readlink(name, dir_fd=here)
        except TreeError:
            raise
        except OSError as error:
            raise self._obstructed(name, error.strerror or "") from error
        self._links += 1
        if self._links > MAX_LINKS:
            raise self._obstructed(name, "too many links lead to each other")
        if target.startswith("/"):
            while len(self._behind) > 1:
                os.close(self._behind.pop())
        self._ahead += _components(target)[::-1]

    def _foreign(self, name: str, whose: str) -> Obstructed:
        return self._obstructed(
            name,
            f"{name} is a link {whose}, which is not followed; remove it, or declare the path it points to",
        )

    def _obstructed(self, name: str, why: str, what: str = "cannot reach") -> Obstructed:
        return Obstructed(f"{what} {self._path}: {why or name}")


def make_folder(
    above: int, name: str, mode: int, uid: int = -1, gid: int = -1, *, writer: int = NOBODY
) -> int:
    """Make a directory and return it open; one that is there already is FileExistsError.

    Where others may write, they could exchange it before it has its owner and mode: there it gets them
    in a folder of ours, and then its name, also in place of a directory that is empty.
    """
    if writer == NOBODY:
        return _make_folder(above, name, mode, uid, gid)
    with closing(private.PrivateFolder(above)) as own:
        temporary = private.temporary_name()
        made = _make_folder(own.descriptor, temporary, mode, uid, gid)
        try:
            os.rename(temporary, name, src_dir_fd=own.descriptor, dst_dir_fd=above)
        except OSError as error:
            os.close(made)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise FileExistsError(errno.EEXIST, "something else is there already") from error
            raise
    return made


def _make_folder(above: int, name: str, mode: int, uid: int, gid: int) -> int:
    """Make a directory that has its mode from the first moment on, as far as the umask lets it.

    Who is killed here leaves no directory behind that nobody can enter, and that nothing would ever mend.
    """
    os.mkdir(name, mode & 0o777, dir_fd=above)
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        if uid != -1 or gid != -1:
            os.fchown(made, uid, gid)
        os.fchmod(made, mode)
    except BaseException:
        os.close(made)
        raise
    return made


def _guarded(folder: os.stat_result, trusted: set[int]) -> bool:
    """Tell whether only users we trust can have put a link of ours into a directory.

    A user who may write into a directory may rename our own links there, or make hard links to them.
    """
    others_write = folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX
    return folder.st_uid in trusted and not others_write


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
