"""Small private files that say whether they are whole, and that can be encrypted.

    nodemanager secrets 1 aes-gcm
    <nonce, ciphertext and tag>         the line before it is authenticated with it

A file is written only if it would say something new: memory cards wear out. What cannot be read is an
error that says why and what to do; the caller can go on without it, because all of it can be read anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files
from nodemanager.host.state.journal import STATE
from nodemanager.host.state.state_key import Cipher

MAX_BYTES: Final = 64 * 1024 * 1024
_NONCE: Final = 12
_PLAIN, _SEALED = b"plain", b"aes-gcm"


class VaultError(HostError):
    """A file of the vault cannot be used."""


class Vault:
    """Files of one folder; on a tree of its own, and one at a time, so that threads may use it."""

    def __init__(self, root: str = "/", folder: str = STATE, cipher: Cipher | None = None) -> None:
        self._tree = Tree(root)
        self._folder = folder
        self._cipher = cipher
        self._lock = threading.Lock()
        self._known: dict[str, bytes] = {}
        """The last known content of the files, as digests."""

    @property
    def encrypts(self) -> bool:
        """Whether there is a key."""
        return self._cipher is not None

    def load(self, name: str) -> bytes | None:
        """Return what was saved under a name; None if nothing was, VaultError if it is of no use."""
        with self._lock:
            return self._load(name)

    def _load(self, name: str) -> bytes | None:
        shown = self._tree.outside(self._path(name))
        try:
            whole = state_files.read(self._tree, self._path(name), MAX_BYTES)
        except OSError as error:
            raise VaultError(f"cannot read {shown}: {error.strerror or error}") from error
        finally:
            self._tree.forget()
        if whole is None:
            return None
        line, _, rest = whole.partition(b"\n")
        kind = line.rpartition(b" ")[2]
        if kind not in (_PLAIN, _SEALED) or line != _line(name, kind):
            raise VaultError(f"cannot use {shown}: it is damaged, or of another version of this agent")
        data = self._opened(shown, line, rest) if kind == _SEALED else _checked(shown, rest)
        if (kind == _SEALED) == self.encrypts:  # else it is to be written anew, as it shall be
            self._known[name] = _digest(data)
        return data

    def _opened(self, shown: str, line: bytes, rest: bytes) -> bytes:
        if self._cipher is None:
            raise VaultError(
                f"cannot use {shown}: it is encrypted, and there is no key; see --state.key-file"
            )
        try:
            return self._cipher.decrypt(rest[:_NONCE], rest[_NONCE:], line)
        except Exception as error:  # of a library that is not imported here, InvalidTag or ValueError
            raise VaultError(
                f"cannot use {shown}: the key of --state.key-file does not open it, or it was changed"
            ) from error

    def save(self, name: str, data: bytes) -> bool:
        """Put data under a name, and return when it is on disk; False if it is there already."""
        with self._lock:
            return self._save(name, data)

    def _save(self, name: str, data: bytes) -> bool:
        digest = _digest(data)
        if self._known.get(name) == digest:
            return False
        if self._cipher is None:
            line = _line(name, _PLAIN)
            body = digest + data
        else:
            line, nonce = _line(name, _SEALED), os.urandom(_NONCE)
            body = nonce + self._cipher.encrypt(nonce, data, line)
        self._known.pop(name, None)
        try:
            state_files.prepare_folder(self._tree, self._folder)
            state_files.write(self._tree, self._path(name), line + b"\n" + body)
        except OSError as error:
            shown = self._tree.outside(self._path(name))
            raise VaultError(f"cannot write {shown}: {error.strerror or error}") from error
        finally:
            self._tree.forget()
        self._known[name] = digest
        return True

    def remove(self, name: str) -> bool:
        """Remove what is under a name; False if there is nothing."""
        with self._lock:
            return self._remove(name)

    def _remove(self, name: str) -> bool:
        self._known.pop(name, None)
        try:
            place = self._tree.place(self._path(name))
            os.unlink(place.name, dir_fd=place.folder)
            with self._tree.readable(place.folder) as folder:
                os.fsync(folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            shown = self._tree.outside(self._path(name))
            raise VaultError(f"cannot remove {shown}: {error.strerror or error}") from error
        finally:
            self._tree.forget()
        return True

    def set_aside(self, name: str) -> None:
        """Give a file that is of no use another name, so that it is complained about once."""
        with self._lock, contextlib.suppress(OSError):
            state_files.set_aside(self._tree, self._path(name))

    def close(self) -> None:
        """Give back what is held open."""
        self._tree.close()

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"


def _line(name: str, kind: bytes) -> bytes:
    return b"nodemanager %b 1 %b" % (name.encode(), kind)


def _checked(shown: str, rest: bytes) -> bytes:
    digest, data = rest[:32], rest[32:]
    if _digest(data) != digest:
        raise VaultError(f"cannot use {shown}: it is damaged")
    return data


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
