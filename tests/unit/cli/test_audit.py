"""`nodemanager audit` on files: what is listed, shown, verified and proven without a cluster."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import ChainEntry, Record, RecordedObject
from nodemanager.host.state.host_chain import HostChain
from nodemanager.tlog import checkpoints, notes
from nodemanager.tlog.cosignatures import Cosigner
from nodemanager.tlog.merkle import leaf_hash
from support import cli, tree_proofs
from support.audit_logs import HonestLog, honest, places, sign_by, signer

KEY = str(signer(1).key)


@pytest.fixture(name="log")
def _log() -> HonestLog:
    log = honest(random.Random(7), 20)
    assert log.tail.size > 10
    return log


@pytest.fixture(name="file")
def _file(log: HonestLog, tmp_path: Path) -> Path:
    path = tmp_path / "evidence.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in log.lines(log.note())))
    return path


def test_an_honest_file_is_intact(log: HonestLog, file: Path) -> None:
    ran = cli.run("audit", "verify", str(file), "--key", KEY)
    assert ran.code == 0, ran
    assert f"intact: {log.tail.size} records from 0 on" in ran.stdout
    assert "compare it with the one that you noted" not in ran.stdout
    assert "compare it with the one that you noted" in cli.run("audit", "verify", str(file)).stdout


def test_what_was_bent_is_named_and_the_command_fails(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    del lines[places(lines)[3]]
    file.write_bytes(b"".join(lines))
    ran = cli.run("audit", "verify", str(file), "--key", KEY)
    assert (ran.code, "dropped: record 3: missing" in ran.stdout) == (1, True), ran
    told = json.loads(cli.run("audit", "verify", str(file), "-o", "json").stdout)
    assert (told["intact"], told["findings"][0]["first"]) == (False, 3)


def test_an_end_that_was_cut_off_is_found_by_a_checkpoint_that_was_kept(
    log: HonestLog, file: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "noted.txt"
    kept.write_text(log.note())
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[: places(lines)[-1]]))
    assert cli.run("audit", "verify", str(file), "--key", KEY).code == 0
    ran = cli.run("audit", "verify", str(file), "--key", KEY, "--checkpoint", str(kept))
    assert (ran.code, "truncated" in ran.stdout) == (1, True), ran


def test_kept_checkpoints_that_contradict_each_other_are_a_fork_and_witness_nothing(
    log: HonestLog, file: Path, tmp_path: Path
) -> None:
    size, witness = log.tail.size, Cosigner("example.org/w", bytes(32))
    true, other = (tmp_path / name for name in ("true.txt", "other.txt"))
    for path, root in ((true, log.tail.tree.root()), (other, bytes(32))):
        note = notes.read(sign_by(signer(1))(size, root))
        path.write_text(str(notes.Note(note.text, (*note.signatures, witness.sign(note.text, 5)))))
    asked = ("audit", "verify", str(file), "--key", KEY, "--witness", str(witness.key))
    assert cli.run(*asked, "--checkpoint", str(true)).code == 0
    for order in ((true, other), (other, true)):
        ran = cli.run(*asked, *(word for path in order for word in ("--checkpoint", str(path))))
        assert (ran.code, "forked: " in ran.stdout, "witnessed" in ran.stdout) == (1, True, False), ran


def test_a_kept_checkpoint_of_records_that_are_gone_is_said_not_to_be_compared(
    log: HonestLog, tmp_path: Path
) -> None:
    kept, later = tmp_path / "noted.txt", max(log.written)
    kept.write_text(sign_by(signer(1))(2, bytes(32)))
    log.written = {later: log.written[later]}
    path = tmp_path / "end.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in log.lines(log.note())))
    ran = cli.run("audit", "verify", str(path), "--key", str(signer(log.key).key), "--checkpoint", str(kept))
    assert (ran.code, "not compared: a checkpoint of 2 records" in ran.stdout) == (0, True), ran


def test_a_witness_that_is_missing_is_told(file: Path) -> None:
    witness = notes.Key("example.com/w", signer(5).key.public, notes.COSIGNATURE)
    ran = cli.run("audit", "verify", str(file), "--witness", str(witness))
    assert (ran.code, "no witness: example.com/w" in ran.stdout) == (1, True)


def test_records_are_listed_and_shown(log: HonestLog, file: Path) -> None:
    rows = cli.run("audit", "log", "--file", str(file)).stdout.splitlines()
    assert len(rows) == log.tail.size + 1
    ada = json.loads(cli.run("audit", "log", "--file", str(file), "--actor", "ada", "-o", "json").stdout)
    assert {one["actor"]["name"] for one in ada} == {"ada"}
    assert 0 < len(ada) < log.tail.size
    shown = json.loads(cli.run("audit", "show", "3", "--file", str(file), "-o", "json").stdout)
    assert shown["sequence"] == 3
    told = cli.run("audit", "show", "3", "--file", str(file)).stdout
    assert "previous" in told.lower()
    assert told.endswith("\n")
    none = cli.run("audit", "show", "100000", "--file", str(file))
    assert (none.code, "it is not there" in none.stderr) == (1, True)


def chain_record(verb: str, line: bytes, index: int, **more: Any) -> Record:
    about = RecordedObject(kind="ManagedNode", namespace="prod", name="web1", uid="u")
    entry = ChainEntry(index, leaf_hash(line).hex(), "ab")
    return Record(verb=verb, aspect="chain", object=about, host="web1", chain=entry, **more)


def host_chain(root: Path, words: list[str]) -> list[bytes]:
    """Write a chain onto a host, and return its lines."""
    root.mkdir(exist_ok=True)
    chain = HostChain(str(root), host="web1")
    chain.append([Record(verb="apply", time="2026-11-17T08:00:00Z", message=one) for one in words])
    lines = chain.read()[1]
    chain.close()
    return lines


def test_a_host_chain_that_went_back_is_named_by_the_log(log: HonestLog, tmp_path: Path) -> None:
    root = tmp_path / "host"
    lines = host_chain(root, ["a", "b", "c"])
    chain_id = records.decode(lines[0]).object.uid

    def ends(*found: Record) -> Path:
        log.grow(*(msgspec.structs.replace(one, chain=one.chain and msgspec.structs.replace(
            one.chain, id=chain_id)) for one in found))  # fmt: skip
        path = tmp_path / "evidence.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in log.lines(log.note())))
        return path

    file = ends(chain_record("anchor", lines[1], 1), chain_record("restore", lines[2], 2))
    assert cli.run("audit", "verify", str(file), "--key", KEY).code == 0
    here = ("audit", "host", "verify", "--root", str(root), "--log", str(file))
    ran = cli.run(*here)
    assert (ran.code, "as the log has them at 2 places" in ran.stdout) == (0, True), ran
    path = root / "var/lib/nodemanager/audit.chain"
    path.write_bytes(b"\n".join(lines[:2]) + b"\n")
    ran = cli.run(*here)
    assert (ran.code, "records 2 to 2 were told of, and are gone" in ran.stdout) == (1, True), ran
    path.unlink()
    host_chain(root, ["a", "z", "c"])
    ran = cli.run(*here)
    assert (ran.code, "this is another chain" in ran.stdout) == (1, True), ran
    ran = cli.run(*here, "--node", "web2")
    assert (ran.code, "nothing of a chain of host web2" in ran.stderr) == (1, True), ran

    file = ends(chain_record("alarm", lines[1], 1, reason="Shortened", message="are gone"))
    ran = cli.run("audit", "verify", str(file), "--key", KEY)
    assert (ran.code, "the chain of host web1: Shortened: are gone" in ran.stdout) == (1, True), ran
    told = json.loads(cli.run("audit", "verify", str(file), "-o", "json").stdout)
    assert (told["intact"], told["hosts"][0]["host"]) == (True, "web1")
    file = ends(chain_record("accept", lines[1], 1))
    assert cli.run("audit", "verify", str(file), "--key", KEY).code == 0


def test_a_proof_is_one(file: Path) -> None:
    proof = json.loads(cli.run("audit", "prove", "5", "--file", str(file)).stdout)
    point = checkpoints.read(notes.read(proof["checkpoint"]).text)
    path = [bytes.fromhex(one) for one in proof["path"]]
    leaf = leaf_hash(proof["record"].encode())
    assert tree_proofs.verify_inclusion(leaf, 5, point.size, path, point.root)
    refused = cli.run("audit", "prove", "100000", "--file", str(file))
    assert (refused.code, "cannot prove record 100000" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("verify", "nowhere.jsonl"), "there is no such file"),
        (("verify", "{file}", "--key", "nonsense"), "cannot read the key"),
        (("verify", "{folder}"), "there is no segment-*.jsonl in it"),
    ],
)
def test_what_cannot_be_read_is_said(args: tuple[str, ...], why: str, file: Path) -> None:
    named = [one.format(file=file, folder=file.parent) for one in args]
    ran = cli.run("audit", *named)
    assert (ran.code, why in ran.stderr) == (1, True), ran
