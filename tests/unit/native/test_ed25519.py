"""Ed25519, by all that can do it, against the vectors of RFC 8032."""

from __future__ import annotations

import _ssl
import builtins
import ctypes
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nodemanager.native import ed25519, openssl
from support import cli
from support.native_module import compiled

pytestmark = pytest.mark.xdist_group("native")  # compiled once

# RFC 8032, 7.1: secret key, public key, message, signature.
VECTORS = [
    pytest.param(
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        id="1",
    ),
    pytest.param(
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        id="2",
    ),
    pytest.param(
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        id="3",
    ),
]


@pytest.fixture(autouse=True)
def looked_for_anew() -> Iterator[None]:
    ed25519._provider.cache_clear()
    yield
    ed25519._provider.cache_clear()


@pytest.fixture(params=["openssl", "package", "built-in"])
def provider(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ModuleType | None:
    if request.param == "openssl":
        assert isinstance(ed25519._provider(), openssl.OpenSsl)
        return None
    if request.param == "package":
        hide_openssl(monkeypatch)
        assert isinstance(ed25519._provider(), ed25519._Package)
        return None
    if not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("libssl-dev is not installed")
    module = compiled(tmp_path, "_sealing", "-lcrypto")
    monkeypatch.setitem(sys.modules, "_sealing", module)
    monkeypatch.setattr(sys, "builtin_module_names", ("_sealing",))
    assert ed25519._provider() is module
    return module


def hide_openssl(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where TLS is linked with a library that shows none of its functions."""
    monkeypatch.setattr(openssl, "_CALLS", {"no_such_function": (None,)})


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize(("secret", "public", "message", "signature"), VECTORS)
def test_it_agrees_with_the_vectors_of_the_rfc(
    provider: ModuleType | None, secret: str, public: str, message: str, signature: str
) -> None:
    seed, said = bytes.fromhex(secret), bytes.fromhex(message)
    assert ed25519.public_key(seed).hex() == public
    assert ed25519.sign(seed, said).hex() == signature
    assert ed25519.verify(bytes.fromhex(public), said, bytes.fromhex(signature))


def test_a_signature_is_right_for_its_message_and_key_only(provider: ModuleType | None) -> None:
    seed = bytes(range(32))
    public, signature = ed25519.public_key(seed), ed25519.sign(seed, b"message")
    assert ed25519.verify(public, b"message", signature)
    assert not ed25519.verify(public, b"massage", signature)
    assert not ed25519.verify(ed25519.public_key(bytes(32)), b"message", signature)
    assert not ed25519.verify(public, b"message", bytes([signature[0] ^ 1]) + signature[1:])
    assert not ed25519.verify(b"\xff" * 32, b"message", signature)
    assert not ed25519.verify(public, b"message", signature[:63])
    assert not ed25519.verify(public[:31], b"message", signature)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_seed_of_another_length_is_refused(provider: ModuleType | None, size: int) -> None:
    with pytest.raises(ValueError, match=f"it has {size} bytes, and needs 32"):
        ed25519.sign(bytes(size), b"")
    with pytest.raises(ValueError, match=f"it has {size} bytes, and needs 32"):
        ed25519.public_key(bytes(size))
    if provider is not None:
        with pytest.raises(ValueError, match="it has not 32 bytes"):
            provider.sign(bytes(size), b"")


def test_what_it_refused_is_no_error_of_the_next_tls_connection() -> None:
    seed = bytes(range(32))
    assert not ed25519.verify(ed25519.public_key(seed), b"massage", ed25519.sign(seed, b"message"))
    assert not ed25519.verify(b"\xff" * 32, b"message", bytes(64))
    left = ctypes.CDLL(_ssl.__file__).ERR_peek_error
    left.restype = ctypes.c_ulong
    assert left() == 0


def test_many_signatures_leave_no_memory_behind() -> None:
    seed = bytes(range(32))
    public, signature = ed25519.public_key(seed), ed25519.sign(seed, b"message")
    for _ in range(200):  # what is allocated once is
        ed25519.verify(public, b"message", signature)
    before = resident()
    for _ in range(5_000):
        assert ed25519.verify(public, b"message", signature)
        ed25519.sign(seed, b"message")
    assert resident() - before < 2 * 1024 * 1024  # keys that are not freed would take 5 MiB


def test_a_library_that_knows_no_ed25519_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssl, "_ED25519", 1)  # the number of something else, as in another library
    with pytest.raises(openssl.NotThere, match="cannot use a key: OpenSSL refuses"):
        openssl.OpenSsl()
    assert isinstance(ed25519._provider(), ed25519._Package)
    monkeypatch.setattr(openssl, "_ED25519", 1034)  # X25519, whose keys have as many bytes
    with pytest.raises(openssl.NotThere, match="by the number"):
        openssl.OpenSsl()


def test_nothing_is_right_for_a_key_that_the_library_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = bytes(range(32))
    public, signature = ed25519.public_key(seed), ed25519.sign(seed, b"message")
    monkeypatch.setattr(openssl, "_ED25519", 1)
    assert not ed25519.verify(public, b"message", signature)


def test_without_any_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_openssl(monkeypatch)
    found = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ed25519.Unavailable, match="install it"):
        ed25519.sign(bytes(32), b"")


RESTRICTED = """\
openssl_conf = all
[all]
alg_section = algorithms
[algorithms]
default_properties = fips=yes
"""
"""As where a host allows none but approved algorithms, and Ed25519 is not among them."""


@pytest.mark.parametrize("call", ["sign(b'x' * 32, b'')", "verify(b'x' * 32, b'', bytes(64))"])
def test_where_none_is_allowed_to_it_says_so_and_no_signature_is_called_wrong(
    tmp_path: Path, call: str
) -> None:
    settings = tmp_path / "openssl.cnf"
    settings.write_text(RESTRICTED)
    code = f"""\
from nodemanager.native import ed25519
try:
    print(ed25519.{call})
except ed25519.Unavailable as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**cli.environment(), "OPENSSL_CONF": str(settings)},
    )  # fmt: skip
    assert done.stdout.startswith("cannot sign or check signatures: this host allows no Ed25519"), done.stderr
