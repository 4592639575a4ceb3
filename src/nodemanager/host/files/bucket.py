"""What files contained before they were replaced or removed, by content: `restore` brings it back.

<bucket>/ab/cd/<rest of the SHA-256>                 the content, 0600
<bucket>/ab/cd/<rest of the SHA-256>.<of path>.meta  whose content it was, as JSON
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from nodemanager.host.base import HostError
from nodemanager.host.files import file_facts
from nodemanager.host.files.bucket_room import BLOCK, Caps, Holding, Room, room
from nodemanager.host.files.drafts import Draft
from nodemanager.host.files.durable import Unsynced
from nodemanager.host.files.tree import NoParent, Place, Tree
from nodemanager.host.state import state_files
from nodemanager.kube import times
from nodemanager.kube.errors import UNREADABLE
from nodemanager.plan.resources import shown

log = logging.getLogger(__name__)
FOLDER: Final = "/var/lib/nodemanager/filebucket"
MAX_SIZE: Final = 16 * 1024 * 1024
MAX_AGE: Final = 168 * 3600.0
MAX_TOTAL: Final = 1024 * 1024 * 1024
MAX_USER: Final = 64 * 1024 * 1024
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


class KeptBackup(NamedTuple):
    """A backup that was made just now."""

    digest: str
    device: int
    """The filesystem that it is on; it counts as a backup only after a sync of that."""
    mode: int
    """The mode of the copied file."""


@dataclass(frozen=True, slots=True)
class BucketLimits:
    """How much is kept."""

    size: int = MAX_SIZE
    """Larger files are not kept; 0 = any size."""
    age: float = MAX_AGE
    """Seconds after which a backup may go; 0 = never."""
    caps: Caps = field(default_factory=lambda: Caps(MAX_TOTAL, MAX_USER))


def _refused(error: OSError) -> None:
    """Raise if the bucket may not be read; one that does not exist yet is empty, and no reason to fail."""
    if isinstance(error, PermissionError):
        raise BucketError("cannot read the backups of this host: only root may; run it with sudo") from error


class Bucket:
    """The backups of a host."""

    def __init__(
        self, tree: Tree, folder: str = FOLDER, limits: BucketLimits | None = None,
        clock: Callable[[], float] = time.time, pinned: Callable[[], AbstractSet[str]] = frozenset,
    ) -> None:  # fmt: skip
        self._tree = tree
        self._pinned = pinned
        """Returns the digests of contents that are kept at any age, because they may have to be restored."""
        self.folder = folder
        self._limits = limits or BucketLimits()
        self._clock = clock
        self._room = Room(self._limits.caps)

    @property
    def forgets(self) -> bool:
        """Whether backups go when they are old."""
        return self._limits.age > 0

    @property
    def largest(self) -> int:
        """How large a file may be that is kept; 0 = of any size."""
        return self._limits.size

    def keep(self, place: Place, unsynced: Unsynced) -> KeptBackup | None:
        """Copy a file into the bucket; None if it is larger than what is kept, which the log says.

        The copy is in `unsynced` afterwards: the caller that replaces the file syncs both at once.
        """
        source = file_facts.open_file(place)
        try:
            found = os.fstat(source)
            if self._limits.size and found.st_size > self._limits.size:
                log.warning("no backup of %s: it has %d bytes, %d are the limit", shown(place.path),
                            found.st_size, self._limits.size)  # fmt: skip
                return None
            if not self._make_room(shown(place.path), found):
                return None
            with Draft(self._prepared()) as draft:
                # Copied and hashed at once, and no further than it was long: it may be written to.
                digest, size = draft.copy(source, found.st_size)
                self._room.add(found.st_uid, room(os.fstat(draft.descriptor)))
                blob = self._tree.place(self._blob(digest), make_parents=True)
                device = unsynced.add(draft.put(blob.folder, blob.name))
        finally:
            os.close(source)
        path = shown(place.path)
        meta = Meta(
            path, self._now(), f"{found.st_mode & 0o7777:04o}", found.st_uid, found.st_gid, size,
        )  # fmt: skip
        with Draft(self._prepared()) as draft:
            state_files.write_all(draft.descriptor, msgspec.json.encode(meta))
            unsynced.add(draft.put(blob.folder, f"{blob.name}.{_short(path)}.meta"))
        return KeptBackup(digest, device, found.st_mode)

    def _make_room(self, path: str, found: os.stat_result) -> bool:
        """Have old backups go for a new one; False if there would be no room for it anyway."""
        owner, needed = found.st_uid, room(found)
        if self._limits.caps.refuses(owner, needed):
            log.warning("no backup of %s: it takes %d bytes, more than all may have", path, needed)
            return False
        going = list(self._room.make(owner, needed, self._holdings))
        if going:
            pinned = self._pinned()
            going = [one for one in going if one.name[0] not in pinned]
        for one in going:
            self._remove(*one.name)
            self._room.add(one.owner, -one.size)
        if going:
            kept = {one.digest for one in self.backups()}
            for digest in {one.name[0] for one in going} - kept:
                self._unlink(self._blob(digest))
            log.warning(
                "removed the oldest backups (%d, of %d bytes): user %d has too many, or all together are",
                len(going), sum(one.size for one in going), owner,
            )  # fmt: skip
        return True

    def _holdings(self) -> Iterator[Holding]:
        for one in self.backups():
            try:
                place = self._tree.place(self._blob(one.digest))
                size = room(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False))
            except OSError:
                size = BLOCK
            yield Holding(one.meta.uid, one.meta.backed_up_at, size, (one.digest, one.meta.path))

    def _remove(self, digest: str, path: str) -> None:
        self._unlink(f"{self._blob(digest)}.{_short(path)}.meta")

    def _prepared(self) -> int:
        try:
            return self._tree.folder(self.folder)
        except NoParent:
            state_files.prepare_below(self._tree, self.folder)
            return self._tree.folder(self.folder)

    def backups(self) -> Iterator[Backup]:
        """Yield everything that is kept, in no order."""
        base = self._tree.outside(self.folder)
        for above, _, names in os.walk(base, onerror=_refused):
            for name in names:
                if not name.endswith(".meta"):
                    continue
                inside = above[len(base) :].replace("/", "")
                digest = inside + name.split(".", 1)[0]
                data = state_files.read(self._tree, f"{self.folder}{above[len(base) :]}/{name}", _META_MAX)
                if data is None or len(digest) != hashlib.sha256().digest_size * 2:
                    continue
                try:
                    yield Backup(digest, msgspec.json.decode(data, type=Meta))
                except UNREADABLE:  # a power cut while it was made
                    log.warning("cannot read %s/%s, which is damaged: it is skipped", above, name)

    def find(self, path: str, digest: str = "") -> Backup:
        """Return the newest backup of a path, or the one that a digest (or its beginning) names."""
        found = [
            one
            for one in self.backups()
            if one.meta.path == shown(path) and one.digest.startswith(digest.lower())
        ]
        if not found:
            missing = f"no backup of it has the hash {digest}" if digest else "there is no backup of it"
            raise BucketError(f"cannot restore {path}: {missing}; see nodemanager backups")
        if digest and len({one.digest for one in found}) > 1:
            raise BucketError(
                f"cannot restore {path}: several backups begin with {digest}; give more of the hash"
            )
        return max(found, key=lambda one: one.meta.backed_up_at)

    def content(self, digest: str, limit: int) -> bytes | None:
        """Return what has this very SHA-256, of whatever file it is a backup; None = nothing has."""
        data = state_files.read(self._tree, self._blob(digest), limit)
        return data if data is not None and hashlib.sha256(data).hexdigest() == digest else None

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
        now, old, kept, pinned = self._clock(), [], set(), self._pinned()
        for one in self.backups():
            if now - _time(one) > self._limits.age and one.digest not in pinned:
                old.append(one)
            else:
                kept.add(one.digest)
        for one in old:
            self._remove(one.digest, one.meta.path)
        for digest in {one.digest for one in old} - kept:
            self._unlink(self._blob(digest))
        if old:
            self._room.count(self._holdings())
        return len(old)

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            place = self._tree.place(path)
            os.unlink(place.name, dir_fd=place.folder)

    def _blob(self, digest: str) -> str:
        return f"{self.folder}/{digest[:2]}/{digest[2:4]}/{digest[4:]}"

    def _now(self) -> str:
        return times.rfc3339_unix(self._clock())


def _time(backup: Backup) -> float:
    try:
        return datetime.fromisoformat(backup.meta.backed_up_at).timestamp()
    except ValueError:
        return 0.0  # the age is unknown: too old


def _short(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:12]
