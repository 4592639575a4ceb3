"""Whose signatures count, and for how long."""

from __future__ import annotations

import pytest

from nodemanager.fleet.audit.keyring import Keyring, UntrustedCheckpoint
from nodemanager.tlog import notes
from nodemanager.tlog.checkpoints import Checkpoint
from nodemanager.tlog.cosignatures import Cosigner
from nodemanager.tlog.notes import Note, Signer
from support.audit_logs import ORIGIN, sign_by, signer

ONE, TWO, THREE = (signer(number) for number in (1, 2, 3))
ROOT = b"r" * 32
WITNESS, OTHER = Cosigner("example.org/w", bytes(32)), Cosigner("example.org/o", b"o" * 32)


def signed(*signers: Signer, size: int = 5) -> str:
    return sign_by(*signers)(size, ROOT)


def refused(ring: Keyring, text: str) -> str:
    with pytest.raises(UntrustedCheckpoint) as found:
        ring.open(text)
    return f"{found.value.kind}: {found.value}"


def test_what_a_noted_key_signed_counts() -> None:
    ring = Keyring([ONE.key], [])
    point = ring.open(signed(ONE))
    assert (point.size, point.root, point.origin) == (5, ROOT, ORIGIN)
    ring.open(signed(ONE, size=6))
    assert (ring.used, ring.assumed) == ([ONE.key], False)


def test_a_log_says_its_first_key_itself_where_none_was_noted() -> None:
    ring = Keyring([], [])
    ring.declare(str(ONE.key))
    ring.declare(str(TWO.key))  # the first one counts
    assert ring.assumed
    assert ring.open(signed(ONE)).size == 5
    assert refused(ring, signed(TWO)).startswith("unknown key: ")
    noted = Keyring([ONE.key], [])
    noted.declare(str(TWO.key))
    noted.declare("no key")
    assert not noted.assumed
    assert refused(noted, signed(TWO)).startswith("unknown key: it is signed by ")
    with pytest.raises(UntrustedCheckpoint) as found:
        Keyring([], []).declare("no key")
    assert found.value.kind == "unknown key"


def test_the_next_key_counts_once_the_present_one_has_signed_that_it_does() -> None:
    ring = Keyring([ONE.key], [])
    ring.proven()  # nobody handed over
    ring.hand_over(str(TWO.key))
    assert refused(ring, signed(TWO)).startswith("unknown key")
    assert ring.open(signed(ONE)).size == 5, "that of before the record, or one that does not name it yet"
    ring.open(signed(ONE, TWO))
    ring.proven()
    assert ring.open(signed(TWO)).size == 5
    assert refused(ring, signed(ONE)).startswith("unknown key"), "it has handed over"
    ring.proven()
    assert ring.open(signed(TWO)).size == 5
    assert ring.used == [ONE.key, TWO.key]
    with pytest.raises(UntrustedCheckpoint, match="cannot follow a rotation: ") as found:
        ring.hand_over("no key")
    assert found.value.kind == "unknown key"


def forged(text: str, by: Signer) -> str:
    """Return a note in which one signature is not of it."""
    note = notes.read(text)
    own = next(iter(note.by(by.key)))
    bent = notes.NoteSignature(own.name, own.key_id, own.data[:-1] + bytes([own.data[-1] ^ 1]))
    return str(Note(note.text, tuple(bent if one == own else one for one in note.signatures)))


def test_a_signature_that_is_none_is_forged_be_it_that_of_the_next_key() -> None:
    ring = Keyring([ONE.key], [])
    ring.hand_over(str(TWO.key))
    assert refused(ring, forged(signed(ONE), ONE)).startswith("forged: ")
    assert refused(ring, forged(signed(ONE, TWO), TWO)).startswith("forged: ")
    assert ring.open(forged(signed(ONE, THREE), THREE)).size == 5, "who asks does not know this one"
    assert refused(ring, "no note").startswith("forged: ")
    assert refused(ring, str(Note("no checkpoint\n").signed_by(ONE))).startswith("forged: ")


def test_one_log_is_of_one_origin() -> None:
    ring = Keyring([ONE.key], [])
    ring.open(signed(ONE))
    elsewhere = str(Note(str(Checkpoint("nodemanager/other", 6, ROOT))).signed_by(ONE))
    said = "forged: it is of the log 'nodemanager/other', not of 'nodemanager/test'"
    assert refused(ring, elsewhere) == said
    assert Keyring([ONE.key], []).open(elsewhere).origin == "nodemanager/other"


def test_several_keys_may_be_trusted_and_one_has_to_have_signed() -> None:
    ring = Keyring([TWO.key, ONE.key], [])
    assert ring.open(signed(ONE)).size == 5
    assert ring.used == [ONE.key]
    text = refused(ring, signed(THREE))
    assert f"it is signed by {THREE.key.name}+{THREE.key.id.hex()}, and no key" in text


def test_when_witnesses_have_seen_it_is_known_of_those_who_did() -> None:
    ring = Keyring([ONE.key], [WITNESS.key, OTHER.key])
    note = notes.read(signed(ONE))
    ring.open(str(Note(note.text, (*note.signatures, OTHER.sign(note.text, 7)))))
    assert ring.seen_by == {"example.org/o": 7}
    ring.open(str(Note(note.text, (*note.signatures, WITNESS.sign(note.text, 8), OTHER.sign(note.text, 9)))))
    assert ring.seen_by == {"example.org/w": 8, "example.org/o": 9}
    ring.open(signed(ONE))
    ring.open(str(Note(note.text, (*note.signatures, WITNESS.sign("another text\n", 10)))))
    assert ring.seen_by == {"example.org/w": 8, "example.org/o": 9}
