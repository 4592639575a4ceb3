"""Which process changed a declared path last, where the kernel reports it.

    fanotify --process, entry--> /proc, while the process is still there --> `who`, asked after a repair

Nothing depends on it. Where it is not to be had (no CAP_SYS_ADMIN, an old kernel, a filesystem without
handles, a process that is gone before we look, or has not closed the file yet) a drift is reported without,
or with less.
"""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from nodemanager.host.base import NotSupported
from nodemanager.host.files.tree import Tree
from nodemanager.host.watches import fanotify
from nodemanager.host.watches.event_reader import EventReader
from nodemanager.host.watches.fanotify import Fanotify, FanotifyEvent

log = logging.getLogger(__name__)
MAX_KNOWN: Final = 4096
"""For how many paths the last process is remembered."""
MAX_AGE: Final = 900.0
"""Seconds; longer than the longest pause before a repair of a contested resource."""
SAME_SECONDS: Final = 1.0
"""A process that changes many files is looked at once in so many seconds,"""
MAX_SEEN: Final = 256
"""and no more than so many of them: anybody who may write beside what is declared can start very many."""
MAX_UNIT: Final = 100
_NO_LOGIN: Final = 2**32 - 1
_UNIT_KINDS: Final = (".service", ".scope")


class FileChangeAuthors:
    """Remembers which process changed the paths that it follows."""

    def __init__(self, tree: Tree, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises NotSupported."""
        self._tree = tree
        self._clock = clock
        self._group = Fanotify()
        self._reader = EventReader(self._group.descriptor, self._drain)
        self._marked: set[str] = set()
        self._names: dict[bytes, list[tuple[str, frozenset[str] | None]]] = {}
        """By what events of a marked directory are known: the paths to it, and the entries that matter there;
        None = all do."""
        self._did: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._seen: dict[int, str] = {}
        self._seen_until = 0.0

    def close(self) -> None:
        """Remember nothing more."""
        self._reader.close()
        self._group.close()

    def follow(self, paths: Iterable[str], purged: Iterable[str]) -> None:
        """Follow exactly these paths, and all entries of the directories that are purged; may be slow."""
        wanted: dict[str, set[str] | None] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            names = wanted.setdefault(folder or "/", set())
            if names is not None:
                names.add(name)
        wanted.update(dict.fromkeys(purged))
        for folder in self._marked - wanted.keys():
            self._unmark(folder)
        found: dict[bytes, list[tuple[str, frozenset[str] | None]]] = {}
        for folder, names in wanted.items():
            if key := self._mark(folder):
                found.setdefault(key, []).append((folder, None if names is None else frozenset(names)))
        self._names = found  # at once: events are read meanwhile

    def who(self, path: str) -> str:
        """Return the process that changed a path last, and forget it; empty = unknown."""
        self._drain()
        said, at = self._did.pop(path, ("", 0.0))
        return said if self._clock() - at < MAX_AGE else ""

    def _mark(self, folder: str) -> bytes:
        """Mark a directory, or what has taken its place; empty where that cannot be."""
        self._marked.discard(folder)
        try:
            walked = self._tree.walk(folder)
        except OSError:
            return b""
        try:
            key = self._group.add(walked)
        except OSError as error:
            log.debug("cannot find out which process changes files in %s: %s", folder, error.strerror)
            return b""
        finally:
            os.close(walked)
        self._marked.add(folder)
        return key

    def _unmark(self, folder: str) -> None:
        self._marked.remove(folder)
        with suppress(OSError):  # it is gone, and its mark with it
            walked = self._tree.walk(folder)
            try:
                self._group.remove(walked)
            finally:
                os.close(walked)

    def _drain(self) -> None:
        for event in self._group.read():
            if event.mask & fanotify.OVERFLOW:
                self._did.clear()  # another process may have that number since
            elif event.pid != os.getpid():
                for path in self._paths(event):
                    self._note(path, event.pid)

    def _paths(self, event: FanotifyEvent) -> Iterator[str]:
        """Return the declared paths that an event is about."""
        name = os.fsdecode(event.name)
        for folder, names in self._names.get(event.folder, ()):
            if names is None or name in names:
                yield f"{folder.rstrip('/')}/{name}"

    def _note(self, path: str, pid: int) -> None:
        now = self._clock()
        if not pid:  # of another container: the process that was there before was not
            self._did.pop(path, None)
            return
        if now >= self._seen_until:
            self._seen, self._seen_until = {}, now + SAME_SECONDS
        said = self._seen.get(pid, "")
        if not said:
            said = describe(pid) if len(self._seen) < MAX_SEEN else f"process {pid}"
            self._seen[pid] = said
        self._did[path] = said, now
        self._did.move_to_end(path)
        if len(self._did) > MAX_KNOWN:
            self._did.popitem(last=False)


def watch(tree: Tree) -> FileChangeAuthors | None:
    """Return a memory of the processes that change files, where that is possible."""
    try:
        return FileChangeAuthors(tree)
    except NotSupported as error:
        log.debug("%s", error)
        return None


def describe(pid: int, processes: Path = Path("/proc")) -> str:
    """Return the facts about a process for people: name, number, user, login, unit."""
    folder = processes / str(pid)
    try:
        name = _plain((folder / "comm").read_text(errors="replace").strip())
        words = [f"{name}[{pid}]", f"uid {folder.stat().st_uid}"]
    except OSError:
        return f"process {pid}, which has ended"
    with suppress(OSError, ValueError):
        login = int((folder / "loginuid").read_text())
        if login != _NO_LOGIN:
            words.append(f"login uid {login}")
    with suppress(OSError):
        words += _unit((folder / "cgroup").read_text(errors="replace"))
    return ", ".join(words)


def _unit(cgroups: str) -> list[str]:
    """Return the innermost unit that a process is part of."""
    parts = [part for line in cgroups.splitlines()[-1:] for part in line.split("/")]
    units = [part for part in parts if part.endswith(_UNIT_KINDS)]
    return [f"in {_plain(units[-1])[:MAX_UNIT]}"] if units else []


def _plain(text: str) -> str:
    """A process may call itself anything."""
    return "".join(one if " " <= one <= "~" else "?" for one in text)
