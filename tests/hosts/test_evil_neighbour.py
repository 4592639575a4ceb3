"""A user of a host who wants to become root, or to read what is not hers, with the agent's help.

    NODEMANAGER_NEIGHBOUR_SECONDS=3600 NODEMANAGER_NEIGHBOUR_SEED=7 \\
        pytest -n 0 -s tests/hosts/test_evil_neighbour.py

Without that it is a minute. The seed decides which tricks are played on which paths, in which order; who is
faster then is the kernel's to say. See tests/support/neighbour.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from support.fleet import Fleet, until
from support.neighbour.rounds import ROUND_SECONDS, Neighbourhood, say

SECONDS = float(os.environ.get("NODEMANAGER_NEIGHBOUR_SECONDS", "60"))
SEED = int(os.environ.get("NODEMANAGER_NEIGHBOUR_SEED", "1"))


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
    while not neighbourhood.rounds or time.monotonic() + ROUND_SECONDS < over:
        neighbourhood.round()
    neighbourhood.finish()
    say(neighbourhood.report())
    assert not neighbourhood.escapes, f"{len(neighbourhood.escapes)} escapes, see above"
    assert sum(neighbourhood.tricks.values()) > 1000
