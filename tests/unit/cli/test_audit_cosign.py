"""`nodemanager audit cosign`: a witness cosigns what goes on from what it saw, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nodemanager.api.audit.record import Record
from nodemanager.fleet.audit import witnessing
from nodemanager.fleet.audit.witnessing import CosignatureRefused, Witnessed
from nodemanager.tlog import checkpoints, cosignatures, notes
from nodemanager.tlog.cosignatures import Cosigner
from support import cli, examples
from support.audit_logs import BENDS, Bend, HonestLog, honest, places, signer, some_record

KEY = str(signer(1).key)
SEED = examples.seed()


@pytest.fixture(name="log")
def _log() -> HonestLog:
    return honest(random.Random(SEED), 8)


@pytest.fixture(name="key")
def _key(tmp_path: Path) -> Path:
    path = tmp_path / "witness.key"
    made = cli.run("audit", "cosign", "--key", str(path), "--create", "example.org/w")
    assert made.code == 0, made
    (tmp_path / "witness.vkey").write_text(made.stdout)
    return path


def stored(log: HonestLog, tmp_path: Path) -> str:
    path = tmp_path / "evidence.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in log.lines(log.note())))
    return str(path)


def cosigned(key: Path, where: str, *more: str) -> str:
    """Return the cosigned checkpoint."""
    ran = cli.run("audit", "cosign", "--key", str(key), where, *more)
    assert ran.code == 0, ran
    return ran.stdout


def refused(key: Path, where: str, *more: str) -> str:
    """Return why nothing is cosigned, after which nothing is remembered, either."""
    memory = key.with_name(f"{key.name}.seen")
    before = memory.read_bytes() if memory.exists() else b""
    ran = cli.run("audit", "cosign", "--key", str(key), where, *more)
    assert (ran.code, ran.stdout) == (1, "")
    assert (memory.read_bytes() if memory.exists() else b"") == before
    return ran.stderr


def test_who_asks_for_the_witness_gets_it_and_no_other(log: HonestLog, key: Path, tmp_path: Path) -> None:
    where = stored(log, tmp_path)
    kept, vkey = tmp_path / "cosigned.txt", str(tmp_path / "witness.vkey")
    kept.write_text(cosigned(key, where, "--log-key", KEY))
    asked = ("audit", "verify", where, "--key", KEY, "--witness", vkey)
    assert "no witness: example.org/w" in cli.run(*asked).stdout
    ran = cli.run(*asked, "--checkpoint", str(kept))
    assert (ran.code, "witnessed by example.org/w at 20" in ran.stdout) == (0, True), ran
    other = notes.Key("example.org/other", signer(5).key.public, notes.COSIGNATURE)
    assert cli.run(*asked, "--checkpoint", str(kept), "--witness", str(other)).code == 1


def test_the_cosigned_note_is_one_that_others_read(log: HonestLog, key: Path, tmp_path: Path) -> None:
    note = notes.read(cosigned(key, stored(log, tmp_path), "--log-key", KEY))
    note.verify(signer(log.key).key)
    witness = notes.read_key((tmp_path / "witness.vkey").read_text())
    assert cosignatures.verify(note, witness) > 1_700_000_000
    assert checkpoints.read(note.text).size == log.tail.size
    assert len(note.signatures) == 2


def test_a_log_that_grows_is_cosigned_again_without_its_key(
    log: HonestLog, key: Path, tmp_path: Path
) -> None:
    first = cosigned(key, stored(log, tmp_path), "--log-key", KEY)
    log.rotate()
    log.grow(Record(verb="update"))
    second = cosigned(key, stored(log, tmp_path))
    sizes = [checkpoints.read(notes.read(one).text).size for one in (first, second)]
    assert sizes[1] == log.tail.size == sizes[0] + 2
    assert cosigned(key, stored(log, tmp_path)).split("\n")[:3] == second.split("\n")[:3]


def test_a_log_that_was_rolled_back_or_forked_is_refused(log: HonestLog, key: Path, tmp_path: Path) -> None:
    before = log.tail, dict(log.written)
    log.grow(Record(verb="update", message="one"))
    cosigned(key, stored(log, tmp_path), "--log-key", KEY)
    log.tail, log.written = before
    assert "truncated: a checkpoint that was kept elsewhere" in refused(key, stored(log, tmp_path))
    log.grow(Record(verb="update", message="other"))
    assert "forked" in refused(key, stored(log, tmp_path))
    log.grow(*[Record(verb="update")] * 5)
    assert "forked" in refused(key, stored(log, tmp_path))


def test_a_log_whose_beginning_is_gone_is_cosigned_only_where_one_can_see_that_it_goes_on(
    key: Path, tmp_path: Path
) -> None:
    log = HonestLog(random.Random(SEED), limit=1500)
    log.grow(*(some_record(log.random) for _ in range(20)))
    where = stored(log, tmp_path)
    cosigned(key, where, "--log-key", KEY)
    size = log.tail.size
    log.grow(*(some_record(log.random) for _ in range(20)))
    log.written = {at: spec for at, spec in log.written.items() if spec.first > size}
    assert "give a copy that has all of them" in refused(key, stored(log, tmp_path))


def test_a_key_that_the_removed_beginning_handed_over_to_has_to_be_given(key: Path, tmp_path: Path) -> None:
    log = HonestLog(random.Random(SEED), limit=1500)
    log.grow(*(some_record(log.random) for _ in range(10)))
    log.rotate()
    log.grow(*(some_record(log.random) for _ in range(10)))
    cosigned(key, stored(log, tmp_path), "--log-key", KEY)
    log.grow(*(some_record(log.random) for _ in range(5)))
    handed = [at for at, spec in log.written.items() if '"verb":"rotate"' in spec.lines]
    log.written = {at: spec for at, spec in log.written.items() if at > handed[0]}
    assert "give the new key as --log-key" in refused(key, stored(log, tmp_path))
    cosigned(key, stored(log, tmp_path), "--log-key", str(signer(log.key).key))


def test_another_log_an_unknown_key_and_a_key_that_others_may_read_are_refused(
    log: HonestLog, key: Path, tmp_path: Path
) -> None:
    where = stored(log, tmp_path)
    assert "give --log-key" in refused(key, where)
    assert "unknown key" in refused(key, where, "--log-key", str(signer(9).key))
    key.chmod(0o640)
    assert f"chmod 600 {key}" in refused(key, where, "--log-key", KEY)
    key.chmod(0o600)
    cosigned(key, where, "--log-key", KEY)
    memory = key.with_name(f"{key.name}.seen")
    memory.write_text("{}")
    assert "restore it from a backup" in refused(key, where)


def test_a_key_is_never_replaced_nor_shown(key: Path, tmp_path: Path) -> None:
    secret = key.read_text()
    again = cli.run("audit", "cosign", "--key", str(key), "--create", "example.org/w")
    assert (again.code, "there is one; it is not replaced" in again.stderr) == (1, True)
    assert key.stat().st_mode & 0o777 == 0o600
    key.write_text(secret[:-9])
    ran = cli.run("audit", "cosign", "--key", str(key), str(tmp_path))
    assert (ran.code, "cannot read a secret key" in ran.stderr) == (1, True)
    assert secret[40:-9] not in ran.stderr


@pytest.mark.parametrize("bend", BENDS, ids=lambda bend: bend.__name__)
def test_nothing_that_was_bent_is_cosigned(bend: Bend) -> None:
    witness = Cosigner("example.org/w", bytes(32))
    for number in range(examples.some(8)):
        seed = f"{SEED}/{bend.__name__}/{number}"
        chance = random.Random(seed)
        log = honest(chance)
        seen = witnessing.cosign(log.lines(log.note()), None, [signer(1).key], witness, 1)
        log.grow(*(some_record(chance) for _ in range(chance.randrange(4))))
        grown = log.lines(log.note())
        bent, _ = bend(chance, grown)
        try:
            again = witnessing.cosign(bent, seen, [], witness, 2)
        except CosignatureRefused:
            continue
        size = size_of(again)
        assert size >= size_of(seen), seed
        kept, there = ([lines[at] for at in places(lines)][:size] for lines in (grown, bent))
        assert kept == there, seed


def test_a_log_that_goes_on_is_always_cosigned() -> None:
    witness = Cosigner("example.org/w", bytes(32))
    for number in range(examples.some(30)):
        chance = random.Random(f"{SEED}/on/{number}")
        log = honest(chance)
        seen = None
        for step in range(4):
            seen = witnessing.cosign(log.lines(log.note()), seen, [signer(1).key], witness, step)
            assert size_of(seen) == log.tail.size
            log.grow(*(some_record(chance) for _ in range(chance.randrange(6))))


def size_of(seen: Witnessed) -> int:
    return checkpoints.read(notes.read(seen.note).text).size
