"""The keys whose signatures this host accepts on a new program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.host.init.systems import SYSTEMS
from nodemanager.host.self_update import minisign
from nodemanager.host.services.choose import Name
from nodemanager.host.state import state_key
from nodemanager.tlog.minisign import PublicKey

NAME: Final = "release.pub"
_OTHERS: Final = 0o022
"""Who may write keys decides what root runs."""
MAX_BYTES: Final = 64 * 1024
"""Of all keys with what is said of them; a file that is longer is no file of keys."""


def path_of(init: Name) -> str:
    """Return where a host keeps the keys that it trusts, in the folder of its configuration."""
    return f"{SYSTEMS[init].folder}/{NAME}"


def trusted(path: str) -> list[PublicKey]:
    """Return the keys in a file that only root can have written; none if there is no such file."""
    try:
        os.lstat(path)  # a link to nowhere is no word that there are no keys, nor is what cannot be looked at
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HostError(f"cannot tell whom to trust: {path}: {error.strerror or error}") from error
    text = state_key.read_guarded(path, _OTHERS, MAX_BYTES).decode("utf-8", "replace")
    keys = minisign.parse_keys(text)
    if not keys:
        raise HostError(
            f"cannot trust anybody: there is no key in {path}; put a public key of minisign there"
        )
    return keys


def given(text: str) -> list[PublicKey]:
    """Return keys that a caller names: a public key itself, or a file with keys."""
    return trusted(text) if Path(text).exists() else minisign.parse_keys(text)
