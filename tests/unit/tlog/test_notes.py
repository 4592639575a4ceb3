"""Notes, checkpoints and cosignatures: read, signed and checked as C2SP says."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nodemanager.tlog import checkpoints, cosignatures, merkle, notes, secret_keys
from nodemanager.tlog.checkpoints import Checkpoint
from nodemanager.tlog.cosignatures import Cosigner
from nodemanager.tlog.notes import Note, Signer
from support.cases import FOLDER as CASES

CASE: dict[str, Any] = yaml.safe_load((CASES / "tlog" / "notes.yaml").read_text())
NEUMANN = Signer("PeterNeumann", bytes.fromhex(CASE["seed"]))
OURS = Signer("example.com/log", bytes(range(32)))
POINT = Checkpoint("example.com/log", 3, merkle.leaf_hash(b"x"))


def test_the_documented_note_is_verified_and_made_again() -> None:
    key = notes.read_key(CASE["key"])
    note = notes.read(CASE["note"])
    note.verify(key)
    assert note.text == CASE["text"]
    assert str(NEUMANN.key) == CASE["key"]
    assert str(Note(CASE["text"]).signed_by(NEUMANN)) == CASE["note"]


def test_a_signature_is_for_its_text_and_key_only() -> None:
    note = notes.read(CASE["note"].replace("answer", "reason"))
    with pytest.raises(notes.NotSigned, match="is wrong"):
        note.verify(NEUMANN.key)
    with pytest.raises(notes.NotSigned, match="has not signed it"):
        note.verify(OURS.key)


def test_a_note_has_several_signatures() -> None:
    note = notes.read(str(Note(str(POINT)).signed_by(OURS, NEUMANN)))
    note.verify(OURS.key)
    note.verify(NEUMANN.key)


@pytest.mark.parametrize("text", CASE["unreadable"].values(), ids=CASE["unreadable"])
def test_what_is_no_note_is_refused(text: str) -> None:
    with pytest.raises(notes.BadNote, match=r"cannot (read a note|name a key)"):
        notes.read(text)


@pytest.mark.parametrize("text", CASE["unreadable_keys"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(notes.BadNote, match="cannot read the key"):
        notes.read_key(text)


def test_notes_have_bounds() -> None:
    for long in ("x" * notes.MAX_NOTE + "\n\n— n AAAAAAAA\n", "x\n\n" + "— n AAAAAAAA\n" * 101):
        with pytest.raises(notes.BadNote, match=r"more than|longer than"):
            notes.read(long)


def test_secrets_are_not_printed() -> None:
    assert repr(OURS) == "Signer('example.com/log')"
    assert repr(Cosigner("w", bytes(32))) == "Cosigner('w')"


def test_the_documented_checkpoint_is_read() -> None:
    note = notes.read(CASE["cosigned"])
    point = checkpoints.read(note.text)
    assert (point.origin, point.size) == ("example.com/behind-the-sofa", 20852163)
    assert str(point) == note.text
    assert int.from_bytes(note.signatures[1].data[:8], "big") == CASE["cosigned_at"]


@pytest.mark.parametrize("text", CASE["unreadable_checkpoints"])
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(notes.BadNote, match="cannot read a checkpoint"):
        checkpoints.read(text)


def test_extensions_are_kept() -> None:
    point = Checkpoint(POINT.origin, POINT.size, POINT.root, ("more", "and more"))
    assert checkpoints.read(str(point)) == point


def test_a_witness_cosigns_a_checkpoint_at_a_time() -> None:
    witness = Cosigner("example.com/witness", bytes(range(1, 33)))
    signed = Note(str(POINT)).signed_by(OURS)
    note = notes.read(str(Note(signed.text, (*signed.signatures, witness.sign(signed.text, 1700000000)))))
    note.verify(OURS.key)
    key = notes.read_key(str(witness.key))
    assert cosignatures.verify(note, key) == 1700000000
    moved = note.signatures[1]
    earlier = notes.NoteSignature(moved.name, moved.key_id, (1600000000).to_bytes(8, "big") + moved.data[8:])
    for other in (Note(note.text, (earlier,)), Note(note.text), Note("other\n1\n", note.signatures)):
        with pytest.raises(notes.NotSigned, match="has not cosigned it"):
            cosignatures.verify(other, key)


def test_a_time_that_no_witness_can_mean_is_refused() -> None:
    witness = Cosigner("example.com/witness", bytes(range(1, 33)))
    text = str(POINT)
    for seconds, good in ((2**63 - 1, True), (2**63, False)):
        note = Note(text, (witness.sign(text, seconds),))
        if good:
            assert cosignatures.verify(note, witness.key) == seconds
        else:
            with pytest.raises(notes.NotSigned):
                cosignatures.verify(note, witness.key)


def test_keys_of_witnesses_are_read_and_kept_as_others_do() -> None:
    key = notes.read_key(CASE["witness_key"])
    assert (key.kind, str(key)) == (notes.COSIGNATURE, CASE["witness_key"])
    witness = secret_keys.read_cosigner(CASE["witness_secret"])
    assert (witness.name, witness.key.public) == ("Wit1", notes.read_key(CASE["witness_public"]).public)
    assert secret_keys.read_cosigner(secret_keys.encode(witness)) == witness


@pytest.mark.parametrize("spoilt", ["", "PRIVATE+KEY+x", "Wit1+", "wrong name", "wrong hash", "short"])
def test_what_is_no_secret_key_is_refused_and_not_repeated(spoilt: str) -> None:
    secret: str = CASE["witness_secret"]
    text = {
        "wrong name": secret.replace("Wit1", "Wit2"),
        "wrong hash": secret.replace("55ee4561", "55ee4562"),
        "short": secret[:-4],
    }.get(spoilt, spoilt)
    with pytest.raises(notes.BadNote, match="cannot read a secret key") as caught:
        secret_keys.read_cosigner(text)
    assert secret[-40:-4] not in str(caught.value)
