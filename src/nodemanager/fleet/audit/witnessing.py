"""What a witness does: it cosigns a checkpoint only if the log continues all that it cosigned before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodemanager.fleet.audit import diagnosing, evidence
from nodemanager.fleet.audit.verifying import Verifier
from nodemanager.kube.objects import Struct
from nodemanager.tlog import checkpoints, notes
from nodemanager.tlog.checkpoints import Checkpoint
from nodemanager.tlog.cosignatures import Cosigner
from nodemanager.tlog.notes import Key, Note


class CosignatureRefused(Exception):
    """A checkpoint is not cosigned; the message says why."""


class Witnessed(Struct):
    """What a witness knows about a log."""

    note: str = ""
    """The last checkpoint that it cosigned."""
    keys: list[str] = []
    """The keys of the log that a person gave; later keys must be handed over to by these."""


def cosign(
    lines: Iterable[bytes], before: Witnessed | None, given: Iterable[Key], witness: Cosigner, seconds: int
) -> Witnessed:
    """Check a log, and return its newest checkpoint with a cosignature; raises Refused."""
    keys = [*given] or [notes.read_key(one) for one in (before.keys if before else [])]
    if not keys:
        raise CosignatureRefused(
            "cannot cosign: nobody said which key the log has; give --log-key, as it was noted"
        )
    old = _point(before.note) if before else None
    expected = {old.size: old.root} if old and old.size else {}
    verifier, last = Verifier(keys, expected=expected), _Last()
    verifier.feed(last.noting(lines))
    report = verifier.finish()
    if not report.intact:
        found = report.findings[0]
        rotated = found.kind == diagnosing.UNKNOWN_KEY and report.first > 0
        said = "; where the record that handed over to it is gone, give the new key as --log-key"
        raise CosignatureRefused(f"cannot cosign: {found}{said if rotated else ''}")
    newest = _point(last.note) if last.note else None
    if newest is None or newest.size != report.signed:
        raise CosignatureRefused(
            "cannot cosign: the log has no checkpoint at its end that covers its records"
        )
    _goes_on(old, newest, report.first)
    note = Note(notes.read(last.note).text, _by_log(notes.read(last.note), report.keys))
    signed = Note(note.text, (*note.signatures, witness.sign(note.text, seconds)))
    return Witnessed(note=str(signed), keys=[str(key) for key in keys])


def origin_of(known: Witnessed) -> str:
    """Return the origin of the log that the witness knows."""
    return _point(known.note).origin


def _goes_on(old: Checkpoint | None, newest: Checkpoint, first: int) -> None:
    """Raise Refused unless a log provably continues what was cosigned before."""
    if old is None:
        return
    if newest.origin != old.origin:
        raise CosignatureRefused(
            f"cannot cosign: this is the log {newest.origin}, and {old.origin} was cosigned before"
        )
    if newest.size < old.size:
        raise CosignatureRefused(
            f"cannot cosign: the log has {newest.size} records, and {old.size} were cosigned before; it was"
            " rolled back, or this is an old copy"
        )
    if old.size and first >= old.size:
        raise CosignatureRefused(
            f"cannot cosign: the records here begin with {first}, and {old.size} were cosigned before, so"
            " that nobody can see whether one goes on from the other; give a copy that has all of them"
        )


def _by_log(note: Note, keys: Iterable[str]) -> tuple[notes.NoteSignature, ...]:
    """Return only the signatures of the log itself: those that others added are not ours to pass on."""
    known = [notes.read_key(one) for one in keys]
    return tuple(one for one in note.signatures if any(one in note.by(key) for key in known))


def _point(note: str) -> Checkpoint:
    return checkpoints.read(notes.read(note).text)


class _Last:
    """Remembers the last checkpoint of a log while another program reads it."""

    def __init__(self) -> None:
        self.note = ""

    def noting(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Return the lines as they are."""
        for line in lines:
            if line.startswith(evidence.CHECKPOINT):
                self.note = evidence.note_of(line)
            yield line
