"""The backend of the docs is taken from its page, and held to the contract of ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.edge.edgecluster import HEALTHY
from nodemanager.backends.storage.seam import StorageBackend
from support.storage_contract import NODES, VOLUMES, StorageContract, StorageLab

PAGE = Path(__file__).parents[3] / "docs" / "edge-backends.md"


@dataclass
class Shelf:
    """The appliance that the page leaves to the reader."""

    placed: dict[str, str] = field(default_factory=lambda: dict.fromkeys(VOLUMES, "a") | {VOLUMES[1]: "b"})
    silent: set[str] = field(default_factory=set)
    away: bool = False
    forgetful: bool = False
    snapshots: list[tuple[str, str]] = field(default_factory=list)
    changes: int = 0

    def volumes(self) -> dict[str, str]:
        if self.away:
            raise ConnectionRefusedError("it is switched off")
        return self.placed

    def alive(self) -> dict[str, bool]:
        return {one: one not in self.silent for one in NODES}

    def kept(self) -> list[tuple[str, str]]:
        return list(self.snapshots)

    def keep(self, wanted: Sequence[tuple[str, str]]) -> None:
        self.snapshots += wanted
        self.changes += bool(wanted)
        if self.forgetful:
            self.forgetful = False
            raise TimeoutError

    def forget(self, resource: str, name: str) -> bool:
        there = (resource, name) in self.snapshots
        self.snapshots = [one for one in self.snapshots if one != (resource, name)]
        self.changes += there
        return there


@dataclass
class ShelfLab:
    shelf: Shelf
    backend: StorageBackend
    good: str = HEALTHY

    def settle(self) -> None:
        """A shelf does everything at once."""

    def silence(self, node: str) -> None:
        self.shelf.silent.add(node)

    def vanish(self) -> None:
        self.shelf.away = True

    def lose_next_answer(self) -> None:
        self.shelf.forgetful = True

    def written(self) -> int:
        return self.shelf.changes


def code_of_page() -> str:
    (found,) = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(found)


class TestShelf(StorageContract):
    @pytest.fixture
    def lab(self) -> StorageLab:
        names: dict[str, Any] = {}
        exec(compile(code_of_page(), str(PAGE), "exec"), names)
        shelf = Shelf()
        return ShelfLab(shelf, names["ShelfBackend"](shelf))


async def test_the_contract_notices_a_backend_that_promises_too_much() -> None:
    names: dict[str, Any] = {}
    exec(compile(code_of_page().replace("{SNAPSHOT}", "{SNAPSHOT, 'Clone'}"), str(PAGE), "exec"), names)
    shelf = Shelf()
    lab = ShelfLab(shelf, names["ShelfBackend"](shelf))
    with pytest.raises(AssertionError, match="Clone"):
        await StorageContract().test_it_has_what_it_declares_and_nothing_else(lab)
