"""What files contained before they were replaced or removed, by content: `restore` brings it back.

<bucket>/ab/cd/<rest of the SHA-256>                 the content, 0600
<bucket>/ab/cd/<rest of the SHA-256>.<of path>.meta  whose content it was, as JSON
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from nodemanager.host import file_facts, state_files
from nodemanager.host.base import HostError
from nodemanager.host.durable import Unsynced
from nodemanager.host.tree import Place, Tree

log = logging.getLogger(__name__)
FOLDER: Final = "/var/lib/nodemanager/filebucket"
MAX_SIZE: Final = 16 * 1024 * 1024
MAX_AGE: Final = 168 * 3600.0
_META_MAX: Final = 64 * 1024


class BucketError(HostError):
    """A backup cannot be made, found or read."""


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Whose content a backup is."""

    path: str
    backed_up_at: str
    mode: str
    uid: int
    gid: int
    size: int = 0


@dataclass(frozen=True, slots=True)
class Backup:
    """One version of one file."""

    digest: str
    meta: Meta


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept."""

    size: int = MAX_SIZE
    """Larger files are not kept; 0 = any size."""
    age: float = MAX_AGE
    """Seconds after which a backup may go; 0 = never."""


class Bucket:
    """The backups of a host."""

    def __init__(
        self, tree: Tree, folder: str = FOLDER, limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._tree = tree
        self._folder = folder
        self._limits = limits or Limits()
        self._clock = clock

    @property
    def forgets(self) -> bool:
        """Whether backups go when they are old."""
        return self._limits.age > 0

    def keep(self, place: Place, unsynced: Unsynced) -> str:
        """Copy a file into the bucket and return its digest; empty if it is larger than what is kept.

        The copy is in `unsynced` afterwards: who replaces the file makes both durable at once.
        """
        source = file_facts.open_file(place)
        try:
            found = os.fstat(source)
            if self._limits.size and found.st_size > self._limits.size:
                return ""
            digest = file_facts.hash_descriptor(source)
            os.lseek(source, 0, os.SEEK_SET)
            meta = Meta(
                place.path, self._now(), f"{found.st_mode & 0o7777:04o}", found.st_uid, found.st_gid,
                found.st_size,
            )  # fmt: skip
            self._store(digest, source, meta, unsynced)
        finally:
            os.close(source)
        return digest

    def _store(self, digest: str, source: int, meta: Meta, unsynced: Unsynced) -> None:
        blob = self._blob(digest)
        for folder in (self._folder.rpartition("/")[0], self._folder):  # ours, so nobody else looks into it
            state_files.prepare_folder(self._tree, folder)
        place = self._tree.place(blob, make_parents=True)
        try:
            os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            unsynced.add(_write(place, iter(lambda: os.read(source, file_facts.CHUNK), b"")))
        about = Place(place.folder, f"{place.name}.{_short(meta.path)}.meta", place.path)
        unsynced.add(_write(about, [msgspec.json.encode(meta)]))

    def backups(self) -> Iterator[Backup]:
        """Yield everything that is kept, in no order."""
        base = self._tree.outside(self._folder)
        for above, _, names in os.walk(base):
            for name in names:
                if not name.endswith(".meta"):
                    continue
                inside = above[len(base) :].replace("/", "")
                digest = inside + name.split(".", 1)[0]
                data = state_files.read(self._tree, f"{self._folder}{above[len(base) :]}/{name}", _META_MAX)
                if data is not None and len(digest) == hashlib.sha256().digest_size * 2:
                    try:
                        yield Backup(digest, msgspec.json.decode(data, type=Meta))
                    except msgspec.MsgspecError:
                        log.warning("cannot read %s/%s: it is damaged; it is passed over", above, name)

    def find(self, path: str, digest: str = "") -> Backup:
        """Return the newest backup of a path, or the one that a digest (or its beginning) names."""
        found = [
            one for one in self.backups() if one.meta.path == path and one.digest.startswith(digest.lower())
        ]
        if not found:
            missing = f"no backup of it has the hash {digest}" if digest else "there is no backup of it"
            raise BucketError(f"cannot restore {path}: {missing}; see nodemanager backups")
        if digest and len({one.digest for one in found}) > 1:
            raise BucketError(
                f"cannot restore {path}: several backups begin with {digest}; give more of the hash"
            )
        return max(found, key=lambda one: one.meta.backed_up_at)

    def read(self, backup: Backup) -> bytes:
        """Return the content of a backup, checked."""
        data = state_files.read(self._tree, self._blob(backup.digest), max(backup.meta.size, 1) + 1)
        if data is None or hashlib.sha256(data).hexdigest() != backup.digest:
            raise BucketError(
                f"cannot restore {backup.meta.path}: its backup {backup.digest} is gone or damaged"
            )
        return data

    def collect(self) -> int:
        """Remove what is older than it has to be; return how many backups that were."""
        if not self._limits.age:
            return 0
        now, old, kept = self._clock(), [], set()
        for one in self.backups():
            if now - _time(one) > self._limits.age:
                old.append(one)
            else:
                kept.add(one.digest)
        for one in old:
            self._unlink(f"{self._blob(one.digest)}.{_short(one.meta.path)}.meta")
        for digest in {one.digest for one in old} - kept:
            self._unlink(self._blob(digest))
        return len(old)

    def _unlink(self, path: str) -> None:
        place = self._tree.place(path)
        os.unlink(place.name, dir_fd=place.folder)

    def _blob(self, digest: str) -> str:
        return f"{self._folder}/{digest[:2]}/{digest[2:4]}/{digest[4:]}"

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(place: Place, chunks: Iterable[bytes]) -> int:
    """Put a file into the bucket whole, and return it open."""
    temporary = f"{place.name}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    written = os.open(temporary, flags, 0o600, dir_fd=place.folder)
    try:
        for chunk in chunks:
            state_files.write_all(written, chunk)
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        os.close(written)
        os.unlink(temporary, dir_fd=place.folder)
        raise
    return written


def _time(backup: Backup) -> float:
    try:
        return datetime.fromisoformat(backup.meta.backed_up_at).timestamp()
    except ValueError:
        return 0.0  # nobody knows how old it is: too old


def _short(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:12]
