"""What the static program has of OpenSSL does the same as the package cryptography."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from nodemanager.host.state import state_key
from support.native_module import compiled

pytestmark = [
    pytest.mark.skipif(not Path("/usr/include/openssl/evp.h").exists(), reason="libssl-dev is not installed"),
    pytest.mark.xdist_group("native"),  # compiled once
]
KEY, NONCE = bytes(range(32)), bytes(12)


@pytest.fixture(scope="module")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return compiled(tmp_path_factory.mktemp("sealing"), "_sealing", "-lcrypto")


@pytest.mark.parametrize("data", [b"", b"a", bytes(1000)])
@pytest.mark.parametrize("more", [b"", b"name"])
def test_both_encrypt_alike_and_open_what_the_other_made(
    sealing: ModuleType, data: bytes, more: bytes
) -> None:
    sealed = AESGCM(KEY).encrypt(NONCE, data, more)
    assert sealing.encrypt(KEY, NONCE, data, more) == sealed
    assert sealing.decrypt(KEY, NONCE, sealed, more) == data


@pytest.mark.parametrize("place", ["key", "nonce", "data", "tag", "more", "short"])
def test_what_was_changed_is_not_opened(sealing: ModuleType, place: str) -> None:
    sealed = sealing.encrypt(KEY, NONCE, b"secret", b"name")
    given = {"key": KEY, "nonce": NONCE, "data": sealed, "more": b"name"}
    if place == "short":
        given["data"] = sealed[:15]
    elif place == "tag":
        given["data"] = sealed[:-1] + bytes([sealed[-1] ^ 1])
    else:
        given[place] = bytes([given[place][0] ^ 1]) + given[place][1:]
    with pytest.raises(ValueError, match="cannot decrypt: it was changed, or it is another key"):
        sealing.decrypt(*given.values())


def test_a_key_of_another_length_is_refused(sealing: ModuleType) -> None:
    with pytest.raises(ValueError, match="the key has not 32 bytes"):
        sealing.encrypt(KEY[:16], NONCE, b"secret", b"")


def test_a_signature_is_right_for_its_message_and_key_only(sealing: ModuleType) -> None:
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    signature = private.sign(b"message")
    assert sealing.verify(public, signature, b"message") is True
    assert sealing.verify(public, signature, b"massage") is False
    assert sealing.verify(os.urandom(32), signature, b"message") is False
    assert sealing.verify(public, signature[:63], b"message") is False
    assert sealing.verify(b"", b"", b"") is False


CALLS = {
    "encrypt": (KEY, bytes(300), b"secret", b""),  # a nonce that is too long for OpenSSL
    "decrypt": (KEY, bytes(300), bytes(20), b""),
    "public_key": (KEY,),
    "sign": (KEY, b"message"),
    "verify": (bytes(32), bytes(64), b"message"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_it_was_refused_is_no_error_of_the_next_tls_connection(sealing: ModuleType, name: str) -> None:
    """Not every OpenSSL tells why it refused something; one more reason is gone with those that it tells."""
    openssl = ctypes.CDLL(sealing.__file__)  # its libraries are searched, too
    openssl.ERR_peek_error.restype = ctypes.c_ulong
    openssl.ERR_new()
    openssl.ERR_set_error(1, 1, None)
    assert openssl.ERR_peek_error() != 0
    with contextlib.suppress(ValueError):
        getattr(sealing, name)(*CALLS[name])
    assert openssl.ERR_peek_error() == 0


@pytest.mark.parametrize("name", ["encrypt", "decrypt"])
def test_what_openssl_says_of_a_refusal_is_not_left_behind(sealing: ModuleType, name: str) -> None:
    with pytest.raises(ValueError, match=f"cannot {name}: "):
        getattr(sealing, name)(*CALLS[name])
    openssl = ctypes.CDLL(sealing.__file__)
    openssl.ERR_peek_error.restype = ctypes.c_ulong
    assert openssl.ERR_peek_error() == 0


def test_a_program_that_has_it_uses_it(
    sealing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"x" * 40)
    key.chmod(0o400)
    sealed = state_key.cipher_of(str(key)).encrypt(NONCE, b"secret", None)
    monkeypatch.setitem(sys.modules, "_sealing", sealing)
    monkeypatch.setattr(sys, "builtin_module_names", ("_sealing",))
    ours = state_key.cipher_of(str(key))
    assert type(ours).__name__ == "_BuiltIn"
    assert ours.decrypt(NONCE, sealed, None) == b"secret"
    assert ours.encrypt(NONCE, b"secret", None) == sealed
