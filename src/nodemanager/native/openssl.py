"""Ed25519 by the OpenSSL that Python's own TLS has loaded, found by ctypes.

A process that talks TLS has it in memory anyway. The package cryptography brings another one: 10 MiB more for
an operator that signs its log, and one more package to install on hosts.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any, Final, NoReturn

_ED25519: Final = 1087
"""NID_ED25519 of OpenSSL's obj_mac.h; such numbers never change."""
_PUBLIC_SIZE: Final = 32
_SIGNATURE_SIZE: Final = 64
_POINTER, _SIZE, _BYTES = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
_SIZE_POINTER: Final = ctypes.POINTER(_SIZE)
_SEED: Final = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
_ITS_KEY: Final = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
"""The first test of RFC 8032."""
_CALLS: Final[dict[str, tuple[Any, ...]]] = {
    "EVP_PKEY_new_raw_private_key": (_POINTER, ctypes.c_int, _POINTER, _BYTES, _SIZE),
    "EVP_PKEY_new_raw_public_key": (_POINTER, ctypes.c_int, _POINTER, _BYTES, _SIZE),
    "EVP_PKEY_get_raw_public_key": (ctypes.c_int, _POINTER, _POINTER, _SIZE_POINTER),
    "EVP_PKEY_free": (None, _POINTER),
    "EVP_MD_CTX_new": (_POINTER,),
    "EVP_MD_CTX_free": (None, _POINTER),
    "EVP_DigestSignInit": (ctypes.c_int, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
    "EVP_DigestSign": (ctypes.c_int, _POINTER, _POINTER, _SIZE_POINTER, _BYTES, _SIZE),
    "EVP_DigestVerifyInit": (ctypes.c_int, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
    "EVP_DigestVerify": (ctypes.c_int, _POINTER, _BYTES, _SIZE, _BYTES, _SIZE),
    "ERR_clear_error": (None,),
}
"""What we call of it: what each returns, and what it takes."""


class NotThere(Exception):
    """The TLS of this Python has no OpenSSL whose functions can be called, or no Ed25519."""


class _Refused(Exception):
    """OpenSSL does not do it."""


class OpenSsl:
    """Ed25519 under the names of the built-in module of the static program."""

    def __init__(self) -> None:
        try:
            import _ssl

            # Its libraries are searched, too. Not find_library: that may find another version.
            library = ctypes.CDLL(_ssl.__file__)
            self._call = {name: _typed(getattr(library, name), *types) for name, types in _CALLS.items()}
        except (ImportError, AttributeError, OSError) as error:
            raise NotThere(f"cannot call OpenSSL: {error}") from error
        self._try_out()

    def _try_out(self) -> None:
        """Make sure that it does what is asked: it may be another library, or restricted (FIPS 140-2)."""
        try:
            found = self.public_key(_SEED)
        except _Refused as error:
            raise NotThere(str(error)) from error
        if found != _ITS_KEY:
            raise NotThere("cannot use OpenSSL: it does not know Ed25519 by the number that we do")

    def public_key(self, seed: bytes, /) -> bytes:
        """Return the public key of a seed."""
        room, size = ctypes.create_string_buffer(_PUBLIC_SIZE), _SIZE(_PUBLIC_SIZE)
        with self._key("EVP_PKEY_new_raw_private_key", seed) as key:
            if self._call["EVP_PKEY_get_raw_public_key"](key, room, ctypes.byref(size)) != 1:
                self._refused("tell the public key of a seed")
        return room.raw

    def sign(self, seed: bytes, message: bytes, /) -> bytes:
        """Return the signature of a message."""
        call = self._call
        room, size = ctypes.create_string_buffer(_SIGNATURE_SIZE), _SIZE(_SIGNATURE_SIZE)
        with self._key("EVP_PKEY_new_raw_private_key", seed) as key, self._context() as context:
            if (
                call["EVP_DigestSignInit"](context, None, None, None, key) != 1
                or call["EVP_DigestSign"](context, room, ctypes.byref(size), message, len(message)) != 1
                or size.value != _SIGNATURE_SIZE
            ):
                self._refused("sign")
        return room.raw

    def verify(self, public: bytes, signature: bytes, message: bytes, /) -> bool:
        """Tell whether a signature is right; that of a key which cannot be used is not."""
        try:
            with self._key("EVP_PKEY_new_raw_public_key", public) as key, self._context() as context:
                return self._verifies(context, key, signature, message)
        except _Refused:
            return False

    def _verifies(self, context: int, key: int, signature: bytes, message: bytes) -> bool:
        call = self._call
        if call["EVP_DigestVerifyInit"](context, None, None, None, key) != 1:
            self._refused("check a signature")
        found: int = call["EVP_DigestVerify"](context, signature, len(signature), message, len(message))
        call["ERR_clear_error"]()  # or the next TLS connection of this thread takes it for its own
        return found == 1

    @contextlib.contextmanager
    def _key(self, kind: str, raw: bytes) -> Iterator[int]:
        key = self._call[kind](_ED25519, None, raw, len(raw))
        if not key:
            self._refused("use a key")
        try:
            yield key
        finally:
            self._call["EVP_PKEY_free"](key)

    @contextlib.contextmanager
    def _context(self) -> Iterator[int]:
        context = self._call["EVP_MD_CTX_new"]()
        if not context:
            raise MemoryError
        try:
            yield context
        finally:
            self._call["EVP_MD_CTX_free"](context)

    def _refused(self, what: str) -> NoReturn:
        self._call["ERR_clear_error"]()
        raise _Refused(f"cannot {what}: OpenSSL refuses")


def _typed(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function
