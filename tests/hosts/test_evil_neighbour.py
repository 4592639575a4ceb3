"""A user of a host who wants to become root, or to read what is not hers, with the agent's help.

    NODEMANAGER_NEIGHBOUR_SECONDS=3600 NODEMANAGER_NEIGHBOUR_SEED=7 \\
        pytest -n 0 -s tests/hosts/test_evil_neighbour.py

Without that it is a minute. The seed decides which tricks are played on which paths, in which order; who is
faster then is the kernel's to say. See tests/support/neighbour.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fleet import Fleet, until
from support.neighbour import grip, kernel, places, rules, tricks
from support.neighbour.rounds import ROUND_SECONDS, Neighbourhood, say

SECONDS = float(os.environ.get("NODEMANAGER_NEIGHBOUR_SECONDS", "60"))
SEED = int(os.environ.get("NODEMANAGER_NEIGHBOUR_SEED", "1"))
TRICKS = 200
"""At least so many, however long they take on a busy machine."""


@pytest.fixture
def neighbourhood(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Neighbourhood]:
    """A host with an agent that watches, and the neighbour."""
    with Fleet.up(tmp_path_factory.mktemp("neighbour"), "alpha") as fleet, fleet.watched(request):
        made = Neighbourhood(fleet["alpha"], SEED)
        made.prepare()
        until(lambda: fleet["alpha"].condition("Watching") == "True", "the watch of the host")
        made.start()
        try:
            yield made
        finally:
            made.end()


@pytest.mark.timeout(SECONDS * 4 + 900)
def test_a_neighbour_gets_nothing_from_the_agent(neighbourhood: Neighbourhood) -> None:
    over = time.monotonic() + SECONDS
    while neighbourhood.tricks.total() <= TRICKS or time.monotonic() + ROUND_SECONDS < over:
        neighbourhood.round()
    neighbourhood.finish()
    say(neighbourhood.report())
    assert not neighbourhood.escapes, f"{len(neighbourhood.escapes)} escapes, see above"
    assert neighbourhood.tricks.total() > TRICKS


def test_every_kind_of_path_is_declared_in_every_place() -> None:
    made = places.targets(1, "word")
    assert len({one.path for one in made}) == len(made)
    assert {(one.place, one.kind) for one in made} >= {
        (place, kind) for place in places.PLACES for kind in places.KINDS
    }
    told = json.loads(places.dump(made, secrets=False))
    assert not [one for one in told if one["content"] and one["kind"].startswith("secret")]


def test_a_seed_decides_which_tricks_are_played(tmp_path: Path) -> None:
    def played(seed: str) -> list[tuple[str, str]]:
        folder = tmp_path / "same"
        folder.mkdir()
        tricked = tricks.Tricks(seed)
        tricked.targets = [places.Target(f"{folder}/{name}", "plain", content="x") for name in range(9)]
        for _ in range(40):
            tricked.play(among=(tricks.powers, tricks.twin, tricks.remove, tricks.fifo))
        shutil.rmtree(folder)
        return list(tricked.told)

    assert played("1/racer") == played("1/racer")
    assert played("1/racer") != played("2/racer")


@pytest.mark.parametrize("harm", ["content", "mode", "acl", "attribute", "link", "fifo", "owner", "missing"])
def test_the_rules_see_what_she_did_to_a_file(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "file"
    target = places.Target(str(path), "plain", content="declared\n")
    path.write_text("declared\n")
    path.chmod(0o644)
    assert rules.fault(target) == ""
    spoil(path, harm)
    assert rules.fault(target)


def spoil(path: Path, harm: str) -> None:
    if harm == "content":
        path.write_text("MALLORY!\n")
    elif harm == "mode":
        path.chmod(0o4755)
    elif harm == "acl":
        os.setxattr(path, kernel.ACCESS, kernel.acl(places.MALLORY))
    elif harm == "attribute":
        os.setxattr(path, "user.evil", b"x")
    elif harm == "owner":
        os.chown(path, places.MALLORY, 0)
    else:
        path.unlink()
        if harm == "link":
            path.symlink_to("/etc/passwd")
        elif harm == "fifo":
            os.mkfifo(path)


def test_a_mapping_of_a_file_outlives_its_change_of_owner(tmp_path: Path) -> None:
    """What makes the strike a strike: it writes to an inode that she could no longer open."""
    path = tmp_path / "file"
    path.write_text("declared\n")
    held = grip.Grip()
    held.hold(str(path))
    path.chmod(0o400)
    assert held.strike() == 2
    assert path.read_text().startswith("MALLORY")
