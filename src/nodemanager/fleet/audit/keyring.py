"""Which keys may sign: those that were noted before, and those to which one of them handed over."""

from __future__ import annotations

from collections.abc import Iterable

from nodemanager.fleet.audit import diagnosing
from nodemanager.tlog import checkpoints, cosignatures, notes
from nodemanager.tlog.notes import Key, Note


class UntrustedCheckpoint(Exception):
    """A checkpoint does not count; with the kind of finding, and why."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Keyring:
    """Checks checkpoints, and follows the keys of a log."""

    def __init__(self, trusted: Iterable[Key], witnesses: Iterable[Key]) -> None:
        self.assumed = False
        """Whether the first key comes from the log itself: nobody compared it with one that was noted before.
        """
        self.used: list[Key] = []
        self.seen_by: dict[str, int] = {}
        """When each witness has last seen a checkpoint, in seconds since 1970."""
        self._now = list(trusted)
        self._next: Key | None = None
        self._witnesses = list(witnesses)
        self._origin = ""

    def declare(self, text: str) -> None:
        """Take the first key that a log says it has, if none was noted before; raises Untrusted."""
        if self._now:
            return
        try:
            self._now = [notes.read_key(text)]
        except notes.BadNote as error:
            raise UntrustedCheckpoint(diagnosing.UNKNOWN_KEY, str(error)) from None
        self.assumed = True

    def hand_over(self, text: str) -> None:
        """Take note of the next key; it counts once the present one has signed the record that says so."""
        try:
            self._next = notes.read_key(text)
        except notes.BadNote as error:
            raise UntrustedCheckpoint(diagnosing.UNKNOWN_KEY, f"cannot follow a rotation: {error}") from None

    def open(self, text: str) -> checkpoints.Checkpoint:
        """Return a checkpoint that is signed as it must be; raises Untrusted."""
        try:
            note = notes.read(text)
            point = checkpoints.read(note.text)
        except notes.BadNote as error:
            raise UntrustedCheckpoint(diagnosing.FORGED, str(error)) from None
        if self._origin not in ("", point.origin):
            raise UntrustedCheckpoint(
                diagnosing.FORGED, f"it is of the log {point.origin[:120]!r}, not of {self._origin[:120]!r}"
            )
        key = self._signer(note)
        self._origin = point.origin
        if key not in self.used:
            self.used.append(key)
        self._note_witnesses(note)
        return point

    def proven(self) -> None:
        """Have the next key count: the records so far are what was signed."""
        if self._next is not None:
            self._now, self._next = [self._next], None

    def _signer(self, note: Note) -> Key:
        signing = [key for key in self._now if note.by(key)]
        if not signing:
            names = ", ".join(f"{one.name}+{one.key_id.hex()}" for one in note.signatures[:3])
            raise UntrustedCheckpoint(
                diagnosing.UNKNOWN_KEY,
                f"it is signed by {names[:200]}, and no key that is trusted here handed over to that",
            )
        coming = [self._next] if self._next is not None and note.by(self._next) else []
        try:
            for key in (*signing, *coming):
                note.verify(key)
        except notes.NotSigned as error:
            raise UntrustedCheckpoint(diagnosing.FORGED, str(error)) from None
        return signing[0]

    def _note_witnesses(self, note: Note) -> None:
        for key in self._witnesses:
            try:
                self.seen_by[key.name] = cosignatures.verify(note, key)
            except notes.NotSigned:
                continue
