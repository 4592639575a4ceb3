"""Trees and proofs: as RFC 6962 wants them, and as the recursive definition of it says for any size."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from nodemanager.tlog import merkle, proofs
from support import examples, tree_proofs
from support.cases import FOLDER as CASES

SEED = examples.seed()

VECTORS: dict[str, Any] = yaml.safe_load((CASES / "tlog" / "merkle.yaml").read_text())
LEAVES = [merkle.leaf_hash(bytes.fromhex(one)) for one in VECTORS["leaves"]]
ROOTS = [bytes.fromhex(one) for one in VECTORS["roots"]]


def path_of(case: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(one) for one in case["path"]]


def defined(leaves: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1, as it is written there."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = max(1 << bit for bit in range(20) if 1 << bit < len(leaves))
    return hashlib.sha256(b"\x01" + defined(leaves[:split]) + defined(leaves[split:])).digest()


@pytest.mark.parametrize("size", range(9))
def test_roots_are_those_of_the_vectors(size: int) -> None:
    assert merkle.root_of(LEAVES[:size]) == ROOTS[size]


@pytest.mark.parametrize("case", VECTORS["inclusion"], ids=str)
def test_inclusion_is_proven_as_in_the_vectors(case: dict[str, Any]) -> None:
    index, size = case["index"], case["size"]
    assert proofs.inclusion(LEAVES[:size], index) == path_of(case)
    assert tree_proofs.verify_inclusion(LEAVES[index], index, size, path_of(case), ROOTS[size])


def test_a_tree_that_goes_on_from_its_frontier_is_the_same() -> None:
    leaves = [merkle.leaf_hash(bytes([one])) for one in range(70)]
    for size in range(70):
        first = merkle.Frontier()
        first.extend(leaves[:size])
        again = merkle.Frontier(first.size, first.hashes)
        copied = again.copy()
        again.extend(leaves[size:])
        assert again.root() == defined(leaves)
        assert copied.root() == defined(leaves[:size])


@pytest.mark.parametrize(("size", "hashes"), [(1, []), (2, [b"x" * 31]), (3, [b"x" * 32]), (-1, [])])
def test_a_frontier_that_cannot_be_is_refused(size: int, hashes: list[bytes]) -> None:
    with pytest.raises(ValueError, match="cannot go on with a tree"):
        merkle.Frontier(size, hashes)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 20, 33])
def test_proofs_hold_for_what_they_prove_and_nothing_else(size: int) -> None:
    leaves = [merkle.leaf_hash(bytes([one])) for one in range(size)]
    root = merkle.root_of(leaves)
    for index, leaf in enumerate(leaves):
        path = proofs.inclusion(leaves, index)
        assert tree_proofs.verify_inclusion(leaf, index, size, path, root)
        assert not tree_proofs.verify_inclusion(merkle.leaf_hash(b"other"), index, size, path, root)
        assert not tree_proofs.verify_inclusion(leaf, index, size, path, merkle.EMPTY)
        assert not tree_proofs.verify_inclusion(leaf, index, size, [*path, root], root)
        assert not tree_proofs.verify_inclusion(leaf, size, size, path, root)
        assert not path or not tree_proofs.verify_inclusion(leaf, index, size, path[:-1], root)


def test_what_is_not_in_a_tree_cannot_be_proven() -> None:
    with pytest.raises(ValueError, match="cannot prove leaf 8: the tree has 8 leaves"):
        proofs.inclusion(LEAVES, 8)


def test_many_leaves_at_once_are_the_same_as_one_by_one() -> None:
    chance = random.Random(SEED)
    for _ in range(examples.some(20)):
        many, single = merkle.Frontier(), merkle.Frontier()
        for _ in range(chance.randrange(1, 6)):
            leaves = [chance.randbytes(32) for _ in range(chance.randrange(0, 40))]
            many.extend(leaves)
            for leaf in leaves:
                single.append(leaf)
            assert (many.size, many.hashes) == (single.size, single.hashes), SEED
