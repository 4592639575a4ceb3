"""What was done on this host, as a chain on its disk: each record names the hash of the one before.

    audit.chain.1    older records, until the next file is full
    audit.chain      the newest; each file begins with a record that names the chain
    audit.lock       held for the moment of a write; counts what could not be written

Several processes add to it: the agent, and every command that changes this host by hand. Each line is one
record in canonical JSON, and is on disk when `append` returns. A power cut can only tear the last write,
which was not reported yet: its first unreadable line, and what follows it, is cut off, and a
record says so. A record that cannot be written, as on a full disk, is counted, and the next one that can be
says how many are missing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Actor, Record, RecordedObject
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import chain_files, state_files
from nodemanager.host.state.chain_files import ChainEnd
from nodemanager.host.state.journal import STATE
from nodemanager.kube import times
from nodemanager.tlog import merkle

NAME: Final = "audit.chain"
OLD: Final = "audit.chain.1"
LOCK: Final = "audit.lock"
MAX_BYTES: Final = 4 * 1024 * 1024
"""The limit of one file; there are two."""
CHAIN: Final = "HostChain"
"""The kind of object in records about the chain itself; its uid is that of the chain."""
BEGIN, GO_ON, CUT, LOST = "begin", "continue", "cut", "lost"
"""The verbs of such records."""
PATIENCE: Final = 10.0
"""How many seconds another process may take to write; a stopped one must not stop us."""
_NAP: Final = 0.01
_DIGITS: Final = 16
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ChainError(HostError):
    """The chain cannot be written now."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The chain as it was at the last look; valid while the file looks the same."""

    look: tuple[int, int, int]
    end: ChainEnd
    anchor: AuditChain


class HostChain:
    """The chain of one host; threads may use it."""

    def __init__(
        self, root: str = "/", folder: str = STATE, host: str = "", limit: int = MAX_BYTES,
        pause: Callable[[float], object] | None = None, patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self._tree = Tree(root)
        self._folder = folder
        self._host = host
        self._limit = limit
        self._pause = pause or threading.Event().wait
        self._patience = patience
        self._mutex = threading.Lock()
        self._seen: _Seen | None = None
        self.path = f"{folder}/{NAME}"
        self.old = f"{folder}/{OLD}"

    @property
    def shown(self) -> str:
        """How the file is called in messages."""
        return self._tree.outside(self.path)

    def append(self, new: Sequence[Record], lost: int = 0) -> AuditChain:
        """Add records, and say that others were lost; returns, when all is on disk, how far the chain is.

        Raises ChainError where that cannot be done. Then nothing was added, and it is reported only by
        `lose`.
        """
        with self._mutex:
            try:
                state_files.prepare_folder(self._tree, self._folder)
                with self._locked() as lock:
                    missing = lost + _read_lost(lock)
                    seen = self._written(new, missing)
                    if missing > lost:
                        _write_lost(lock, 0)
                    self._seen = seen
                    return seen.anchor
            except ChainError:
                raise
            except OSError as error:
                self._seen = None
                raise ChainError(f"cannot record what was done in {self.shown}: {_why(error)}") from error
            finally:
                self._tree.forget()

    def lose(self, count: int) -> None:
        """Count records that cannot be written: in place, for which a full disk has room. Raises OSError."""
        with self._mutex:
            try:
                with self._locked() as lock:
                    _write_lost(lock, _read_lost(lock) + count)
            finally:
                self._tree.forget()

    def anchor(self) -> AuditChain | None:
        """Return how far the chain on disk is; None = there is none. Raises OSError."""
        with self._mutex:
            try:
                look = self._look()
                if look is None:
                    return None
                if self._seen is None or self._seen.look != look:
                    with self._locked():
                        end = chain_files.find_end(self._tree, self.path, self.old)
                        # The process that wrote it may have been killed before: what others get to know must
                        # last.
                        chain_files.sync(self._tree, self.path if end.length else self.old)
                        self._seen = _Seen(look, end, _anchored(end))
                return self._seen.anchor if self._seen.anchor.size else None
            finally:
                self._tree.forget()

    def recent(self) -> tuple[bytes, ...]:
        """Return some of the newest lines, as they were when it was last looked how far the chain is."""
        return self._seen.end.recent if self._seen is not None else ()

    def length(self) -> int:
        """Return how many bytes the newest file had then, without a torn end."""
        return self._seen.end.length if self._seen is not None else 0

    def read(self) -> tuple[list[bytes], list[bytes]]:
        """Return the lines of the older file and of the newer one, as they are. Raises OSError."""
        with self._mutex:
            try:
                return chain_files.lines(self._tree, self.old), chain_files.lines(self._tree, self.path)
            finally:
                self._tree.forget()

    def close(self) -> None:
        """Give back what is held open."""
        self._tree.close()

    # Writing

    def _written(self, new: Sequence[Record], lost: int) -> _Seen:
        look = self._look()
        known = self._seen if self._seen is not None and self._seen.look == look else None
        end = known.end if known else chain_files.find_end(self._tree, self.path, self.old)
        if end.damaged:
            state_files.set_aside(self._tree, end.damaged)
            end = chain_files.find_end(self._tree, self.path, self.old)
        told = [*self._about_itself(end, lost), *new]
        if end.length and end.length + sum(len(records.encode(one)) + 160 for one in told) > self._limit:
            self._rotate()
            end = chain_files.find_end(self._tree, self.path, self.old)
        start = end
        try:
            for batch in self._batches(end, told):
                end = self._add(end, batch)
        except OSError:
            if end is not start:  # all or nothing: what was not added is added again
                self._shorten(start.length)
            raise
        return _Seen(self._look() or (0, 0, 0), end, _anchored(end))

    def _about_itself(self, end: ChainEnd, lost: int) -> Iterator[Record]:
        if end.torn:
            said = f"{end.torn} bytes of an unfinished write were cut off"
            yield Record(verb=CUT, aspect="chain", message=said, count=end.torn)
        if lost:
            said = f"{lost} records could not be written"
            yield Record(verb=LOST, aspect="chain", message=said, count=lost)

    def _batches(self, end: ChainEnd, told: Sequence[Record]) -> Iterator[list[bytes]]:
        """Make lines, each with the hash of the one before; what is written at once is bounded."""
        size, head = end.size, end.head
        batch: list[bytes] = []
        length = 0
        for one in ([] if end.length else [self._opening(end)]) + list(told):
            full = msgspec.structs.replace(
                one, sequence=size, previous=head, host=one.host or self._host,
                time=one.time or times.rfc3339(datetime.now(UTC)), actor=_named(one.actor),
            )  # fmt: skip
            line = records.encode(records.bounded(full))
            if batch and length + len(line) + 1 > chain_files.MAX_WRITE:
                yield batch
                batch, length = [], 0
            batch.append(line)
            length += len(line) + 1
            size, head = size + 1, merkle.leaf_hash(line).hex()
        if batch:
            yield batch

    def _opening(self, end: ChainEnd) -> Record:
        """Return the first record of a file: it names the chain, and from where on there are records."""
        about = RecordedObject(kind=CHAIN, name=self._host, uid=end.id or secrets.token_hex(16))
        if not end.size:
            return Record(verb=BEGIN, aspect="chain", object=about)
        said = f"records from {end.first} on are kept"
        return Record(verb=GO_ON, aspect="chain", object=about, from_=str(end.first), message=said)

    def _add(self, end: ChainEnd, batch: Sequence[bytes]) -> ChainEnd:
        place = self._tree.place(self.path)
        new = self._look() is None
        descriptor = os.open(place.name, _APPEND, 0o600, dir_fd=place.folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a file")
            os.ftruncate(descriptor, end.length)  # what was torn, by us or before
            try:
                state_files.write_all(descriptor, b"".join(line + b"\n" for line in batch))
                os.fsync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, end.length)
                raise
        finally:
            os.close(descriptor)
        if new:
            with self._tree.readable(place.folder) as folder:
                os.fsync(folder)
        return chain_files.after(end, batch)

    def _shorten(self, length: int) -> None:
        place = self._tree.place(self.path)
        descriptor = os.open(place.name, _APPEND, 0o600, dir_fd=place.folder)
        try:
            os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)

    def _rotate(self) -> None:
        """Let the newest file become the older one, and drop the oldest; the next write begins a file."""
        place = self._tree.place(self.path)
        os.rename(place.name, OLD, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        with self._tree.readable(place.folder) as folder:
            os.fsync(folder)

    # Looking

    def _look(self) -> tuple[int, int, int] | None:
        """Return what tells one state of the files from another; None = there is no chain."""
        for path in (self.path, self.old):
            try:
                place = self._tree.place(path)
                found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if path == self.path or found.st_size:
                return found.st_ino, found.st_size, found.st_mtime_ns
        return None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        place = self._tree.place(f"{self._folder}/{LOCK}")
        descriptor = os.open(place.name, _LOCK, 0o600, dir_fd=place.folder)
        try:
            self._take(descriptor)
            if os.fstat(descriptor).st_size < _DIGITS:
                with contextlib.suppress(OSError):  # a full disk
                    _write_lost(descriptor, 0)
            yield descriptor
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        waited = 0.0
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if waited >= self._patience:
                raise ChainError(
                    f"cannot record what was done in {self.shown}: another nodemanager has been writing"
                    f" there for {self._patience:g} s"
                )
            self._pause(_NAP)
            waited += _NAP


def _anchored(end: ChainEnd) -> AuditChain:
    return AuditChain(id=end.id, size=end.size, head=end.head, first_kept=end.first)


def _named(actor: Actor) -> Actor:
    return msgspec.structs.replace(actor, known=records.HOST) if actor.known == records.UNKNOWN else actor


def _read_lost(descriptor: int) -> int:
    text = os.pread(descriptor, _DIGITS, 0).strip()
    return int(text) if text.isdigit() else 0


def _write_lost(descriptor: int, count: int) -> None:
    os.pwrite(descriptor, b"%0*d\n" % (_DIGITS - 1, min(count, 10 ** (_DIGITS - 1) - 1)), 0)
    os.fsync(descriptor)


def _why(error: OSError) -> str:
    return error.strerror or str(error)
