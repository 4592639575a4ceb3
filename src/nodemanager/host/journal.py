"""Restarts and runs that are owed, on disk before the file that causes them changes.

An entry is made before a file is put in place and removed only after the restart or run has
succeeded, so neither a crash, a busy lock nor a reboot loses it. One small JSON file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from nodemanager.host import state_files
from nodemanager.host.base import HostError
from nodemanager.host.tree import Tree
from nodemanager.plan.facts import Pending
from nodemanager.plan.resources import ResourceId, parse_id

log = logging.getLogger(__name__)
STATE: Final = "/var/lib/nodemanager"
NAME: Final = "pending.json"
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_CAUSES: Final = 64
"""Paths remembered per entry; more would not make the restart any more owed."""


class JournalError(HostError):
    """The record of what is owed cannot be read or written."""


class _Entry(msgspec.Struct, omit_defaults=True):
    causes: list[str]
    since: float
    started: bool = False


class _Document(msgspec.Struct):
    version: int = 1
    pending: dict[str, _Entry] = {}


class Journal:
    """What is owed on this host."""

    def __init__(self, tree: Tree, folder: str = STATE, clock: Callable[[], float] = time.time) -> None:
        self._tree = tree
        self._folder = folder
        self._path = f"{folder}/{NAME}"
        self._clock = clock
        self._entries: dict[ResourceId, _Entry] = {}
        self._load()

    def _load(self) -> None:
        data = state_files.read(self._tree, self._path, MAX_BYTES)
        if data is None:
            return
        try:
            found = msgspec.json.decode(data, type=_Document)
            self._entries = {parse_id(text): entry for text, entry in found.pending.items()}
        except (msgspec.MsgspecError, ValueError) as error:
            raise JournalError(
                f"cannot read what is owed from {self._tree.outside(self._path)}: {error}; restart the"
                " services whose files changed recently, then remove the file"
            ) from error

    def pending(self) -> Mapping[ResourceId, Pending]:
        """Return everything that is owed."""
        return {one: Pending(tuple(entry.causes), entry.since) for one, entry in self._entries.items()}

    def started(self) -> list[ResourceId]:
        """Return the runs that were begun and whose end was never recorded."""
        return [one for one, entry in self._entries.items() if entry.started]

    def owe(self, owed: Mapping[ResourceId, Iterable[str]]) -> None:
        """Record restarts and runs with their causes; returns when that is on disk."""
        changed = False
        for resource, paths in owed.items():
            entry = self._entries.get(resource)
            if entry is None:
                entry = self._entries[resource] = _Entry([], self._clock())
                changed = True
            new = [path for path in paths if path not in entry.causes]
            if new and len(entry.causes) < MAX_CAUSES:
                entry.causes += new[: MAX_CAUSES - len(entry.causes)]
                changed = True
        if changed:
            self._save()

    def begin(self, resource: ResourceId) -> None:
        """Record that a run is about to begin; returns when that is on disk."""
        entry = self._entries.setdefault(resource, _Entry([], self._clock()))
        entry.started = True
        self._save()

    def end(self, resource: ResourceId) -> None:
        """Record that a run has ended and failed: what was owed before it is owed still."""
        entry = self._entries.get(resource)
        if entry is None:
            return
        entry.started = False
        if not entry.causes:
            del self._entries[resource]
        self._save()

    def settle(self, resources: Iterable[ResourceId]) -> None:
        """Record that these are no longer owed; returns when that is on disk."""
        gone = [one for one in resources if self._entries.pop(one, None) is not None]
        if gone:
            self._save()

    def keep_only(self, resources: Iterable[ResourceId]) -> None:
        """Drop what is owed to nobody: services and executions that are no longer declared."""
        known = set(resources)
        stale = [one for one in self._entries if one not in known]
        for one in stale:
            log.info("%s is no longer declared, so nothing is owed to it", one)
        self.settle(stale)

    def _save(self) -> None:
        document = _Document(pending={str(one): entry for one, entry in self._entries.items()})
        try:
            self._tree.forget()
            state_files.prepare_folder(self._tree, self._folder)
            state_files.write(self._tree, self._path, msgspec.json.encode(document))
        except OSError as error:
            why = error.strerror or str(error)
            raise JournalError(
                f"cannot record what is owed in {self._tree.outside(self._path)}: {why}; nothing that would"
                " need a restart is changed until this is possible"
            ) from error
