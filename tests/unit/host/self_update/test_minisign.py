"""Signatures of minisign: those of minisign itself, and what is wrong with others."""

from __future__ import annotations

import base64
import hashlib

import pytest

from nodemanager.host.base import HostError
from nodemanager.host.self_update import minisign
from nodemanager.host.self_update.minisign import SignatureRefused
from nodemanager.native import ed25519

SEED, KEY_ID = bytes(range(32)), b"abcdefgh"
CONTENT = b"a program\n"
DIGEST = hashlib.blake2b(CONTENT).digest()
COMMENT = "timestamp:1\tfile:nodemanager\tversion:0.2.0"


def public(key_id: bytes = KEY_ID, seed: bytes = SEED) -> str:
    key = base64.b64encode(b"Ed" + key_id + ed25519.public_key(seed)).decode()
    return f"untrusted comment: minisign public key\n{key}\n"


def signature(comment: str = COMMENT, algorithm: bytes = b"ED", signed_comment: str = "") -> str:
    made = ed25519.sign(SEED, DIGEST)
    whole = ed25519.sign(SEED, made + (signed_comment or comment).encode())
    lines = ("untrusted comment: x", base64.b64encode(algorithm + KEY_ID + made).decode(),
             f"trusted comment: {comment}", base64.b64encode(whole).decode())  # fmt: skip
    return "\n".join(lines) + "\n"


def test_a_good_one_says_what_was_signed() -> None:
    said = minisign.verify(minisign.parse_keys(public()), minisign.parse_signature(signature()), DIGEST)
    assert said == {"timestamp": "1", "file": "nodemanager", "version": "0.2.0"}


def test_several_keys_are_trusted_and_the_right_one_is_asked() -> None:
    keys = minisign.parse_keys(f"# old\n{public(b'ijklmnop', bytes(32))}\n{public()}")
    assert [one.name for one in keys] == ["706F6E6D6C6B6A69", "6867666564636261"]
    assert minisign.verify(keys, minisign.parse_signature(signature()), DIGEST)["version"] == "0.2.0"


def test_a_key_is_called_as_minisign_does_without_zeros_in_front() -> None:
    assert [one.name for one in minisign.parse_keys(public(b"abcdefg\x0b"))] == ["B67666564636261"]


@pytest.mark.parametrize(
    ("keys", "text", "digest", "why"),
    [
        pytest.param(public(), signature(), b"x" * 64, "the file was changed", id="another file"),
        pytest.param(public(seed=bytes(32)), signature(), DIGEST, "the file was changed", id="name of a key"),
        pytest.param(public(b"ijklmnop"), signature(), DIGEST, "is not trusted", id="another key"),
        pytest.param("", signature(), DIGEST, r"is not trusted \(trusted: none\)", id="no key"),
        pytest.param(
            public(), signature(COMMENT.replace("2", "3"), signed_comment=COMMENT), DIGEST,
            "the comment of its signature was changed", id="another version",
        ),
    ],
)  # fmt: skip
def test_a_bad_one_is_refused(keys: str, text: str, digest: bytes, why: str) -> None:
    with pytest.raises(SignatureRefused, match=why):
        minisign.verify(minisign.parse_keys(keys), minisign.parse_signature(text), digest)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "four lines", id="nothing"),
        pytest.param("<html>\n" * 5, "four lines", id="a page"),
        pytest.param(signature(algorithm=b"Ed"), "sign the file again", id="of a whole file"),
        pytest.param(signature().replace("=", ""), "cannot read", id="no base64"),
    ],
)
def test_what_is_no_signature_is_refused(text: str, why: str) -> None:
    with pytest.raises(SignatureRefused, match=why):
        minisign.parse_signature(text)


def test_a_line_that_is_no_key_is_an_error() -> None:
    with pytest.raises(HostError, match="cannot read the public key 'ssh-ed25519"):
        minisign.parse_keys("ssh-ed25519 AAAA me@example.org")
