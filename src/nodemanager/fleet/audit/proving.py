"""A proof that one record is in a log, for a reader who does not have the rest of the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nodemanager.fleet.audit import evidence
from nodemanager.tlog import checkpoints, notes, proofs
from nodemanager.tlog.merkle import leaf_hash

_MARKS = (evidence.KEY, evidence.SEGMENT, evidence.CHECKPOINT)


class NoProof(ValueError):
    """A record cannot be proven; the message says why."""


def prove(lines: Iterable[bytes], number: int) -> dict[str, Any]:
    """Return the record, the last checkpoint, and the hashes that lead from the record to the checkpoint."""
    leaves: list[bytes] = []
    record = note = ""
    for line in lines:
        if line.startswith(evidence.SEGMENT):
            head = evidence.head_of(line)
            if head is None or head.first != len(leaves):
                raise NoProof(
                    f"cannot prove record {number}: the log does not begin at record 0, or has a gap"
                )
        elif line.startswith(evidence.CHECKPOINT):
            note = evidence.note_of(line)
        elif not line.startswith(_MARKS):
            record = line.decode() if len(leaves) == number else record
            leaves.append(leaf_hash(line))
    try:
        point = checkpoints.read(notes.read(note).text)
    except notes.BadNote as error:
        raise NoProof(f"cannot prove record {number}: {error}") from None
    if not number < point.size <= len(leaves):
        raise NoProof(
            f"cannot prove record {number}: the last checkpoint covers {point.size} of {len(leaves)}"
        )
    return {
        "record": record,
        "leafHash": leaves[number].hex(),
        "index": number,
        "treeSize": point.size,
        "rootHash": point.root.hex(),
        "path": [one.hex() for one in proofs.inclusion(leaves[: point.size], number)],
        "checkpoint": note,
    }
