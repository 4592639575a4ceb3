"""The tasks of this host on disk: each in a file of its own, written whole before anything is done."""

from __future__ import annotations

import logging
import os
from typing import Final

import msgspec

from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.host.base import HostError
from nodemanager.host.files import file_facts
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files
from nodemanager.host.state.journal import STATE
from nodemanager.kube.errors import UNREADABLE
from nodemanager.plan.tasks.admission import Ledger
from nodemanager.plan.tasks.record import TaskPhase, TaskRecord

log = logging.getLogger(__name__)
KEPT: Final = 200
"""How many ended tasks are remembered: a repeated one is answered, not done again."""
MAX_BYTES: Final = 4 * 1024 * 1024
FENCE: Final = "fence"
_END: Final = ".json"


class LedgerError(HostError):
    """The result of a task cannot be recorded, so the task is not carried out."""


class Entry(msgspec.Struct, frozen=True):
    """A task as it is kept, with its spec, so that it can be finished without the API."""

    name: str
    spec: NodeTaskSpec
    record: TaskRecord


class LedgerFolder:
    """The tasks of one host."""

    def __init__(self, tree: Tree, folder: str = f"{STATE}/tasks", kind: type[Entry] = Entry) -> None:
        self._tree = tree
        self._folder = folder
        self._kind = kind
        self.entries: dict[str, Entry] = {}
        self.fence = 0
        self._load()

    def reload(self) -> None:
        """Look again what is on disk."""
        self._tree.forget()
        self.entries, self.fence = {}, 0
        self._load()

    def known(self) -> Ledger:
        """Return what is remembered, as the decision wants it."""
        return Ledger({uid: entry.record for uid, entry in self.entries.items()}, self.fence)

    def unfinished(self) -> list[Entry]:
        """Return what was taken and has not ended, in the order of its tokens."""
        found = [entry for entry in self.entries.values() if not entry.record.phase.is_end]
        return sorted(found, key=lambda one: (one.record.token, one.record.uid))

    def inverse(self, uid: str, step: str) -> bytes:
        """Return how it was before a step of a task that succeeded; empty = that is not known."""
        entry = self.entries.get(uid)
        if entry is None:
            return b""
        steps = zip(entry.spec.steps, entry.record.steps, strict=False)
        return next((record.inverse for said, record in steps if said.name == step), b"")

    def claim(self, entry: Entry) -> None:
        """Take a task: from now on no older one is.

        The record comes first: it has the token, too, and a token without a record would refuse its own task.
        """
        self.save(entry)
        self.fence = max(self.fence, entry.record.token)
        self._write(FENCE, str(self.fence).encode())

    def save(self, entry: Entry) -> None:
        """Return when it is on disk."""
        self._write(entry.record.uid + _END, msgspec.json.encode(entry))
        self.entries[entry.record.uid] = entry
        if entry.record.phase.is_end:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        ended = [one for one in self.entries.values() if one.record.ended_at]
        ended.sort(key=lambda one: (one.record.token, one.record.uid))
        for old in ended[:-KEPT]:
            del self.entries[old.record.uid]
            try:
                os.unlink(old.record.uid + _END, dir_fd=self._tree.folder(self._folder))
            except OSError as error:
                log.debug("cannot remove the record of task %s: %s", old.name, error)

    def _write(self, name: str, data: bytes) -> None:
        try:
            self._tree.forget()
            state_files.prepare_below(self._tree, self._folder)
            state_files.write(self._tree, f"{self._folder}/{name}", data)
        except OSError as error:
            where = self._tree.outside(self._folder)
            raise LedgerError(
                f"cannot write down the task in {where}: {error.strerror or error}; nothing is done until"
                " this is possible"
            ) from error

    def _load(self) -> None:
        names = file_facts.list_names(self._tree, self._folder) or ()
        for name in names:
            if name == FENCE:
                self.fence = self._number(name)
            elif name.endswith(_END):
                self._read(name)
        self.fence = max([self.fence, *(entry.record.token for entry in self.entries.values())])

    def _number(self, name: str) -> int:
        text = (state_files.read(self._tree, f"{self._folder}/{name}", 64) or b"").decode("ascii", "replace")
        return int(text) if text.isdecimal() else 0

    def _read(self, name: str) -> None:
        path = f"{self._folder}/{name}"
        try:
            data = state_files.read(self._tree, path, MAX_BYTES)
            if data is not None:
                entry = msgspec.json.decode(data, type=self._kind)
                self.entries[entry.record.uid] = entry
        except (OSError, *UNREADABLE) as error:
            # Whatever it was, it was taken: it must not be done again.
            log.warning("cannot read what became of a task from %s: %s", self._tree.outside(path), error)
            uid = name.removesuffix(_END)
            lost = TaskRecord(uid, phase=TaskPhase.HALTED, message=f"its record could not be read: {error}")
            self.entries[uid] = self._kind(uid, NodeTaskSpec(), lost)
