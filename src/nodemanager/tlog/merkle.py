"""The Merkle tree of RFC 6962: hashes of leaves and nodes, and a tree that grows without being kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

HASH_SIZE: Final = 32
EMPTY: Final = hashlib.sha256(b"").digest()
"""The root of a tree without leaves."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node with two children."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """What is needed of a tree to add leaves and to tell its root: a hash for each 1 bit of its size."""

    __slots__ = ("_hashes", "size")

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        if size < 0 or len(hashes) != size.bit_count() or any(len(one) != HASH_SIZE for one in hashes):
            raise ValueError(
                f"cannot go on with a tree of size {size}: it has {max(size, 0).bit_count()} hashes of"
                f" {HASH_SIZE} bytes, and {len(hashes)} are given"
            )
        self.size = size
        self._hashes = list(hashes)

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """The roots of its complete subtrees, the largest first."""
        return tuple(self._hashes)

    def copy(self) -> Frontier:
        """Return one that grows by itself."""
        return Frontier(self.size, self._hashes)

    def append(self, leaf: bytes) -> None:
        """Add the hash of a leaf."""
        sha256, hashes, carried = hashlib.sha256, self._hashes, self.size
        while carried & 1:
            leaf = sha256(b"\x01" + hashes.pop() + leaf).digest()
            carried >>= 1
        hashes.append(leaf)
        self.size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add the hashes of leaves: many at once, level by level, which is quicker than one by one."""
        sha256, hashes, carried = hashlib.sha256, self._hashes, self.size
        level, complete = list(leaves), []
        self.size += len(level)
        while level:
            if carried & 1:  # a subtree of this size waits for its right sibling
                level.insert(0, hashes.pop())
            carried >>= 1
            if len(level) & 1:
                complete.append(level.pop())
            pairs = iter(level)
            level = [
                sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)
            ]
        hashes.extend(reversed(complete))

    def root(self) -> bytes:
        """Return the root of the tree."""
        if not self._hashes:
            return EMPTY
        found = self._hashes[-1]
        for left in reversed(self._hashes[:-1]):
            found = node_hash(left, found)
        return found


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root of a tree of these leaves, given as hashes."""
    tree = Frontier()
    tree.extend(leaves)
    return tree.root()
