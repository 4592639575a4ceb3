"""Records and logs as a fleet with maintenances makes them."""

from __future__ import annotations

from pathlib import Path
from random import Random

from nodemanager.api.audit import record as records
from nodemanager.api.audit.auditsegment import AuditSegmentSpec
from nodemanager.api.audit.record import Actor, Record, RecordedObject
from nodemanager.fleet.audit import evidence, segments
from nodemanager.tlog.checkpoints import Checkpoint
from nodemanager.tlog.notes import Note, Signer

AT = "2026-11-17T08:00:00.123456Z"
SIGNER = Signer("nodemanager/bench/00000000", bytes(range(32)))
BATCH = 2000
_PEOPLE = Actor(name="ada@example.org", groups=["ops", "system:authenticated"], known=records.ADMISSION)
_OPERATOR = Actor(name="nodemanager-operator", known=records.OPERATOR)


def sign(size: int, root: bytes) -> str:
    """Return a signed checkpoint."""
    return str(Note(str(Checkpoint(SIGNER.name, size, root))).signed_by(SIGNER))


def record(random: Random, number: int) -> Record:
    """Return one of about 620 bytes: a third is by people, a third has a reason."""
    host, run = f"web{number % 1000}", f"run-{number // 1000}/1"
    return Record(
        time=AT,
        actor=_OPERATOR if number % 3 else _PEOPLE,
        verb=random.choice(["create", "update", "start", "advance", "end"]),
        aspect=random.choice(["spec", "visit", "phase"]),
        object=RecordedObject(
            kind="ManagedNode",
            namespace="nodemanager",
            name=host,
            uid=f"{random.getrandbits(128):032x}",
            generation=number % 9 + 1,
            spec_digest=f"{random.getrandbits(256):064x}",
        ),
        host=host,
        from_=f"{run} Draining",
        to=f"{run} Working",
        reason="" if number % 3 else "WindowOpen",
        message="nodemaintenance/kernel",
        plan_hash=f"{random.getrandbits(256):064x}" if number % 2 else "",
    )


def write(path: Path, count: int) -> None:
    """Write an export of so many records: segments of 64 KiB, with a checkpoint in the seal of each."""
    random, tail = Random(1), segments.EMPTY
    last: AuditSegmentSpec | None = None
    with path.open("wb") as file:
        file.write(evidence.key_line(SIGNER.key) + b"\n")
        for begin in range(0, count, BATCH):
            added = [record(random, number) for number in range(begin, min(begin + BATCH, count))]
            written, tail = segments.grow(tail, added, AT, sign)
            for one in written:
                last = one
                if one.sealed is not None:
                    file.writelines(line + b"\n" for line in evidence.lines_of(one))
        if last is not None and last.sealed is None:
            file.writelines(line + b"\n" for line in evidence.lines_of(last))
        file.write(evidence.checkpoint_line(sign(tail.size, tail.tree.root())) + b"\n")
