"""Audit logs, honest ones and bent ones, as the lines of an export."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from nodemanager.api.audit import record as records
from nodemanager.api.audit.auditsegment import AuditSegmentSpec
from nodemanager.api.audit.record import Actor, Record, RecordedObject
from nodemanager.fleet.audit import evidence, segments
from nodemanager.fleet.audit.segments import Tail
from nodemanager.fleet.audit.unproven import ROTATE
from nodemanager.tlog import merkle
from nodemanager.tlog.checkpoints import Checkpoint
from nodemanager.tlog.notes import Note, Signer

AT: Final = "2026-11-17T08:00:00Z"
ORIGIN: Final = "nodemanager/test"


def signer(number: int) -> Signer:
    """Return one of several keys."""
    return Signer(ORIGIN, bytes([number]) * 32)


def sign_by(*signers: Signer) -> segments.Sign:
    """Return what signs checkpoints with keys."""
    return lambda size, root: str(Note(str(Checkpoint(ORIGIN, size, root))).signed_by(*signers))


def some_record(random: Random) -> Record:
    """Return a record as there are many."""
    return Record(
        time=AT,
        actor=Actor(name=random.choice(["ada", "bob"]), known=records.ADMISSION),
        verb=random.choice(["create", "update", "start", "end"]),
        aspect="spec",
        object=RecordedObject(
            kind="ConfigSet", name=f"set-{random.randrange(50)}", generation=random.randrange(9)
        ),
        message="x" * random.randrange(60),
    )


@dataclass
class HonestLog:
    """A log that grew in batches, with keys that changed on the way."""

    random: Random
    limit: int = 4000
    key: int = 1

    def __post_init__(self) -> None:
        self.tail: Tail = segments.EMPTY
        self.written: dict[int, AuditSegmentSpec] = {}
        self.notes: list[str] = []

    def grow(self, *added: Record) -> None:
        """Add records, as one writer does, and keep what it would have stored."""
        specs, self.tail = segments.grow(self.tail, added, AT, sign_by(signer(self.key)), self.limit)
        self.written.update({spec.index: spec for spec in specs})

    def rotate(self) -> None:
        """Hand over to the next key; the checkpoint of that is signed by both."""
        old, new = signer(self.key), signer(self.key + 1)
        self.grow(Record(verb=ROTATE, aspect="key", from_=str(old.key), to=str(new.key)))
        last = self.tail.spec
        assert last is not None
        self.written[last.index] = segments.sealed(last, self.tail.tree, AT, sign_by(old, new))
        self.tail = segments.tail_of(self.written[last.index])
        self.key += 1

    def note(self) -> str:
        """Return a checkpoint of now."""
        return sign_by(signer(self.key))(self.tail.size, self.tail.tree.root())

    def lines(self, checkpoint: str = "") -> list[bytes]:
        """Return all of it as an export has it."""
        log = [self.written[index] for index in sorted(self.written)]
        return list(evidence.lines_of_log(log, [str(signer(1).key)], checkpoint))


def honest(random: Random, batches: int = 6) -> HonestLog:
    """Return a log of random size."""
    log = HonestLog(random, limit=random.choice([1500, 4000, 20_000]))
    for _ in range(random.randint(1, batches)):
        log.grow(*(some_record(random) for _ in range(random.randint(1, 12))))
        if random.random() < 0.2:
            log.rotate()
    return log


Bend = Callable[[Random, list[bytes]], tuple[list[bytes], set[int]]]
"""Bends the lines of a log; returns them, and the numbers of which one has to be named."""


def places(lines: list[bytes]) -> list[int]:
    """Return where records are."""
    marks = (evidence.KEY, evidence.SEGMENT, evidence.CHECKPOINT)
    return [place for place, line in enumerate(lines) if not line.startswith(marks)]


def _number(line: bytes) -> int:
    return records.decode(line).sequence


def alter(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Change one field of one record."""
    place = random.choice(places(lines))
    said = json.loads(lines[place])
    field = random.choice(["verb", "message", "sequence", "previous", "actor", "weather"])
    said[field] = {"sequence": said.get("sequence", 0) + random.choice([-1, 1, 1000])}.get(
        field, {"name": "eve"} if field == "actor" else "e" * 64
    )
    return _put(lines, place, records.canonical(said)), {_number(lines[place])}


def garble(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Make a record unreadable."""
    place = random.choice(places(lines))
    return _put(lines, place, lines[place][: random.randrange(len(lines[place]))]), {_number(lines[place])}


def drop(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Leave a record out."""
    place = random.choice(places(lines))
    return lines[:place] + lines[place + 1 :], {_number(lines[place])}


def swap(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Exchange two records; where there is only one, leave it out."""
    found = places(lines)
    if len(found) < 2:
        return drop(random, lines)
    one, other = random.sample(found, 2)
    bent = _put(_put(lines, one, lines[other]), other, lines[one])
    return bent, {_number(lines[one]), _number(lines[other])}


def insert(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Put a record in that was not there: a forged one, or one a second time."""
    place = random.choice(places(lines))
    said = json.loads(lines[place])
    if random.random() < 0.5:
        said["actor"] = {"name": "eve"}
    number = _number(lines[place])
    return [*lines[:place], records.canonical(said), *lines[place:]], {number, max(number - 1, 0)}


def rewrite(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Change a record and all links, heads and roots after it, as somebody does who cannot sign."""
    place = random.choice(places(lines))
    bent, tree, leaf = list(lines[:place]), merkle.Frontier(), b""
    for line in (lines[one] for one in places(lines) if one < place):
        leaf = merkle.leaf_hash(line)
        tree.append(leaf)
    for at in range(place, len(lines)):
        line = lines[at]
        if line.startswith(evidence.SEGMENT) and (head := evidence.head_of(line)) is not None:
            changed = {
                "first": head.first,
                "frontier": [one.hex() for one in tree.hashes],
                "index": head.index,
            }
            line = records.canonical({"segment": changed})
        elif at in places(lines):
            said = json.loads(line)
            said |= {"actor": {"name": "eve"}} if at == place else {}
            said |= {"previous": leaf.hex()} if leaf else {}
            line = records.canonical(said)
            leaf = merkle.leaf_hash(line)
            tree.append(leaf)
        bent.append(line)
    return bent, {_number(lines[place])}


def lose_segment(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Leave out a segment with all that is in it; where there is only one, leave a record out."""
    heads = [place for place, line in enumerate(lines) if line.startswith(evidence.SEGMENT)]
    if len(heads) < 3:
        return drop(random, lines)
    which = random.randrange(
        1, len(heads) - 1
    )  # without its beginning, a log is one whose old records were removed
    low, high = heads[which], heads[which + 1]
    return lines[:low] + lines[high:], {
        _number(line) for line in (lines[at] for at in places(lines) if low < at < high)
    }


def spoil_head(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Change what a segment says of itself."""
    place = random.choice([place for place, line in enumerate(lines) if line.startswith(evidence.SEGMENT)])
    head = evidence.head_of(lines[place])
    assert head is not None
    changed = {
        "index": {"first": head.first, "frontier": head.frontier, "index": head.index + 1},
        "first": {"first": head.first + 1, "frontier": head.frontier, "index": head.index},
        "frontier": {"first": head.first, "frontier": ["e" * 64, *head.frontier[1:]], "index": head.index},
    }[random.choice(["first", "frontier"] if head.index == 0 else ["index", "first", "frontier"])]
    return _put(lines, place, records.canonical({"segment": changed})), set()


def forge(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Replace a checkpoint by one that nobody signed, or another key, or that has another root."""
    place = random.choice([place for place, line in enumerate(lines) if line.startswith(evidence.CHECKPOINT)])
    note = evidence.note_of(lines[place])
    origin, size, root = note.split("\n")[:3]
    wrong = merkle.leaf_hash(random.randbytes(8))
    bent = random.choice(
        [
            str(Note(f"{origin}\n{size}\n{root}\n").signed_by(signer(99))),
            sign_by(signer(1 if random.random() < 0.5 else 99))(int(size), wrong),
            note.replace(root, root[1:-1] + root[:1] + "="),
            note.replace(origin, "elsewhere", 1),
            note[:-6] + ("AAAAA\n" if note[-6:] != "AAAAA\n" else "BBBBB\n"),
        ]
    )
    return _put(lines, place, evidence.checkpoint_line(bent)), set()


def change_key(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Sign everything with a key of somebody else."""
    bent = []
    for line in lines:
        if line.startswith(evidence.CHECKPOINT):
            text = "".join(f"{one}\n" for one in evidence.note_of(line).split("\n")[:3])
            bent.append(evidence.checkpoint_line(str(Note(text).signed_by(signer(99)))))
        else:
            bent.append(evidence.key_line(signer(99).key) if line.startswith(evidence.KEY) else line)
    return bent, set()


def truncate(random: Random, lines: list[bytes]) -> tuple[list[bytes], set[int]]:
    """Cut the end off, checkpoints and all."""
    place = random.choice(places(lines))
    return lines[:place], {_number(lines[place])}


BENDS: Final[tuple[Bend, ...]] = (
    alter, garble, drop, swap, insert, rewrite, lose_segment, spoil_head, forge, change_key, truncate,
)  # fmt: skip


def _put(lines: list[bytes], place: int, line: bytes) -> list[bytes]:
    return [*lines[:place], line, *lines[place + 1 :]]
