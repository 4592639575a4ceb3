"""Proofs that a leaf is in a Merkle tree (RFC 6962, 2.1.1), made from the hashes of all its leaves."""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.tlog.merkle import root_of


def inclusion(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return what proves that a leaf is at an index of the tree of these leaves."""
    if not 0 <= index < len(leaves):
        raise ValueError(f"cannot prove leaf {index}: the tree has {len(leaves)} leaves")
    return _path(leaves, index)


def _path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    path: list[bytes] = []
    while len(leaves) > 1:
        split = _split(len(leaves))
        left, right = leaves[:split], leaves[split:]
        if index < split:
            path.append(root_of(right))
            leaves = left
        else:
            path.append(root_of(left))
            leaves, index = right, index - split
    return path[::-1]


def _split(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << ((size - 1).bit_length() - 1)
