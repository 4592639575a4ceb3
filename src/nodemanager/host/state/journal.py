"""Restarts and runs that are owed, on disk before the file that causes them changes.

An entry is made before a file is put in place and removed only after the restart or run has
succeeded, so neither a crash, a busy lock nor a reboot loses it. One small JSON file.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from nodemanager.host.base import HostError, root_remedy
from nodemanager.host.files.tree import Tree, TreeError
from nodemanager.host.state import state_files
from nodemanager.kube.errors import UNREADABLE
from nodemanager.plan.facts import Pending
from nodemanager.plan.resources import ResourceId, parse_id

log = logging.getLogger(__name__)
STATE: Final = "/var/lib/nodemanager"
NAME: Final = "pending.json"
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_CAUSES: Final = 64
"""How many paths are remembered per entry; more would not make the restart more necessary."""


class JournalError(HostError):
    """The record of due restarts cannot be read or written."""


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    causes: list[str]
    since: float
    started: bool = False
    later: list[str] = []
    """Changes after the current run began: they require another one."""


_Entries = dict[ResourceId, _Entry]


class _Document(msgspec.Struct):
    version: int = 1
    pending: dict[str, _Entry] = {}


def _with(entry: _Entry, causes: list[str]) -> _Entry:
    """Return an entry with these causes of the next run: those of one that is under way stay."""
    if entry.started:
        return msgspec.structs.replace(entry, later=causes)
    return msgspec.structs.replace(entry, causes=causes)


def _without(entry: _Entry, gone: set[str]) -> _Entry:
    """Return an entry without these causes; of one that is there twice, the later one goes."""
    left = [path for path in entry.causes if path not in gone or path in entry.later]
    return msgspec.structs.replace(
        entry, causes=left, later=[path for path in entry.later if path not in gone]
    )


class Journal:
    """The due restarts and runs of this host."""

    def __init__(self, tree: Tree, folder: str = STATE, clock: Callable[[], float] = time.time) -> None:
        self._tree = tree
        self.folder = folder
        self._path = f"{folder}/{NAME}"
        self._clock = clock
        self._entries: _Entries = {}
        self._lock = threading.RLock()
        """Threads install files while running executions end."""
        self._load()

    def reload(self) -> None:
        """Read again what is on disk."""
        with self._lock:
            self._entries = {}
            self._load()

    def _load(self) -> None:
        try:
            data = state_files.read(self._tree, self._path, MAX_BYTES)
            if data is None:
                return
            found = msgspec.json.decode(data, type=_Document)
            self._entries = {parse_id(text): entry for text, entry in found.pending.items()}
        except (OSError, *UNREADABLE, ValueError) as error:
            where = self._tree.outside(self._path)
            if isinstance(error, TreeError):  # it says itself what to do
                raise JournalError(f"cannot read what is owed: {error}") from error
            remedy = root_remedy(error) if isinstance(error, OSError) else ""
            remedy = remedy or "; restart the services whose files changed recently, then remove the file"
            raise JournalError(f"cannot read what is owed from {where}: {_why(error)}{remedy}") from error

    def pending(self) -> Mapping[ResourceId, Pending]:
        """Return everything that is owed."""
        return {
            one: Pending(tuple(dict.fromkeys((*entry.causes, *entry.later))), entry.since)
            for one, entry in self._entries.items()
        }

    def started(self) -> list[ResourceId]:
        """Return the runs that were begun and whose end was never recorded."""
        return [one for one, entry in self._entries.items() if entry.started]

    def owe(self, owed: Mapping[ResourceId, Iterable[str]]) -> Mapping[ResourceId, tuple[str, ...]]:
        """Record restarts and runs with their causes; returns, when that is on disk, what is new of it."""
        with self._lock:
            entries, new = dict(self._entries), {}
            for resource, paths in owed.items():
                entry = entries.get(resource, _Entry([], self._clock()))
                known = entry.later if entry.started else entry.causes
                added = [path for path in paths if path not in known][: MAX_CAUSES - len(known)]
                if added or resource not in entries:
                    new[resource] = tuple(added)
                    entries[resource] = _with(entry, [*known, *added])
            if new:
                self._save(entries)
            return new

    def retract(self, owed: Mapping[ResourceId, Iterable[str]]) -> None:
        """Record that these causes did not come about after all."""
        with self._lock:
            entries = dict(self._entries)
            for resource, paths in owed.items():
                if entry := entries.get(resource):
                    entries[resource] = _without(entry, set(paths))
                    if entries[resource] == _Entry([], entry.since):
                        del entries[resource]
            if entries != self._entries:
                self._save(entries)

    def begin(self, resource: ResourceId) -> None:
        """Record that a run is about to begin; returns when that is on disk."""
        with self._lock:
            entry = self._entries.get(resource, _Entry([], self._clock()))
            self._save({**self._entries, resource: msgspec.structs.replace(entry, started=True)})

    def end(self, resource: ResourceId) -> None:
        """Record that a run has ended and failed: what was owed before it is owed still."""
        with self._lock:
            entries = dict(self._entries)
            entry = entries.pop(resource, None)
            if entry is None:
                return
            if causes := list(dict.fromkeys((*entry.causes, *entry.later))):
                entries[resource] = _Entry(causes, entry.since)
            self._save(entries)

    def settle(self, resources: Iterable[ResourceId]) -> None:
        """Record that these are no longer owed, but for what changed since their run began."""
        with self._lock:
            entries = dict(self._entries)
            for one in resources:
                entry = entries.pop(one, None)
                if entry is not None and entry.later:
                    entries[one] = _Entry(entry.later, self._clock())
            if entries != self._entries:
                self._save(entries)

    def keep_only(self, resources: Iterable[ResourceId]) -> None:
        """Drop entries without an owner: services and executions that are no longer declared."""
        known = set(resources)
        with self._lock:
            stale = [one for one in self._entries if one not in known]
            for one in stale:
                log.info("%s is no longer declared, so nothing is owed to it", one)
            if stale:
                self._save({one: entry for one, entry in self._entries.items() if one in known})

    def _save(self, entries: _Entries) -> None:
        """Write entries to disk; they count only after that, so that no step relies on unwritten ones."""
        document = _Document(pending={str(one): entry for one, entry in entries.items()})
        try:
            self._tree.forget()
            state_files.prepare_folder(self._tree, self.folder)
            state_files.write(self._tree, self._path, msgspec.json.encode(document))
        except OSError as error:
            raise JournalError(
                f"cannot record what is owed in {self._tree.outside(self._path)}: {_why(error)}; nothing that"
                f" would need a restart is changed until this is possible{root_remedy(error)}"
            ) from error
        self._entries = entries


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
