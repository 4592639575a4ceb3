"""Pasts of an audit log, of which one operator may sign several."""

from __future__ import annotations

import msgspec

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import evidence
from nodemanager.tlog import merkle
from nodemanager.tlog.merkle import Frontier
from support.audit_logs import sign_by, signer


class Past:
    """A log that its operator writes as it likes."""

    def __init__(self, message: str) -> None:
        self.message, self.tree, self.leaf = message, Frontier(), b""
        self.lines: list[bytes] = []

    def head(self, index: int = 0, tree: Frontier | None = None) -> Past:
        """Begin a segment."""
        said = tree or self.tree
        hashes = [one.hex() for one in said.hashes]
        line = evidence.SegmentLine(evidence.SegmentHead(index=index, first=said.size, frontier=hashes))
        self.lines.append(records.canonical(line))
        return self

    def grow(self, count: int, **odd: int | str) -> Past:
        """Add records, the last of them with what it should not have."""
        for number in range(count):
            one = Record(self.tree.size, self.leaf.hex(), verb="update", message=self.message)
            if number == count - 1:
                one = msgspec.structs.replace(one, **odd)
            self.lines.append(records.encode(one))
            self.leaf = merkle.leaf_hash(self.lines[-1])
            self.tree.append(self.leaf)
        return self

    def sign(self) -> Past:
        """Sign all of it."""
        note = sign_by(signer(1))(self.tree.size, self.tree.root())
        self.lines.append(evidence.checkpoint_line(note))
        return self
