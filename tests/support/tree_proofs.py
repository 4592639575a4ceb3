"""Checks a proof that a leaf is in a Merkle tree as readers do (RFC 9162, 2.1.3.2); we only make them."""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.tlog.merkle import node_hash


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Tell whether a path proves that a leaf, given as hash, is at an index of a tree with this root."""
    if not 0 <= index < size:
        return False
    node, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and found == root
