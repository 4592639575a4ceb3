"""Finds former content of a file by its digest: in the file itself, or in its backup in the bucket."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Final

from nodemanager.host.files.bucket import Bucket, BucketError
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files

MAX_BYTES: Final = 64 * 1024 * 1024


def former_content(tree: Tree, bucket: Bucket | None, path: str, digest: str) -> bytes:
    """Return it; `BucketError` if it is nowhere."""
    found = b""
    with contextlib.suppress(OSError):  # something else is there now
        found = state_files.read(tree, path, MAX_BYTES) or b""
    if hashlib.sha256(found).hexdigest() == digest:
        return found
    if bucket is None:
        raise BucketError(f"cannot put back {path}: no backups are kept here")
    kept = bucket.content(digest, MAX_BYTES)
    if kept is None:
        raise BucketError(f"cannot put back {path}: there is no backup with the hash {digest}")
    return kept
