"""Proofs about Merkle trees (RFC 6962, 2.1): that a leaf is in one, that one is the beginning of another.

They are made from the hashes of all leaves, and checked with a few only (RFC 9162, 2.1.3.2 and 2.1.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.tlog.merkle import EMPTY, node_hash, root_of


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


def consistency(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """Return what proves that the tree of these leaves begins with its first `old_size` ones."""
    if not 0 < old_size <= len(leaves):
        raise ValueError(f"cannot prove a beginning of {old_size} leaves: the tree has {len(leaves)}")
    path: list[bytes] = []
    whole = True
    while old_size < len(leaves):
        split = _split(len(leaves))
        left, right = leaves[:split], leaves[split:]
        if old_size <= split:
            path.append(root_of(right))
            leaves = left
        else:
            path.append(root_of(left))
            leaves, old_size, whole = right, old_size - split, False
    return [*([] if whole else [root_of(leaves)]), *path[::-1]]


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


def verify_consistency(old_size: int, size: int, old_root: bytes, root: bytes, path: Sequence[bytes]) -> bool:
    """Tell whether a path proves that a tree begins with an older one."""
    if old_size == size:
        return not path and old_root == root
    if old_size == 0:  # every tree begins with nothing
        return not path and old_root == EMPTY
    if not 0 < old_size < size or not path:
        return False
    hashes = list(path)
    if old_size & (old_size - 1) == 0:
        hashes.insert(0, old_root)
    node, last = old_size - 1, size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    older = newer = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            older, newer = node_hash(sibling, older), node_hash(sibling, newer)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            newer = node_hash(newer, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and older == old_root and newer == root


def _split(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << ((size - 1).bit_length() - 1)
