"""Random histories of a site with faults, before both servers: never a wrong phase, and never a write.

`NODEMANAGER_EDGE_SEQUENCES=1000` runs so many, from `NODEMANAGER_EDGE_SEED` on.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest

from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS, PHASES
from support import edge_site, examples
from support.agent_process import Api
from support.edge_sequences import FORGET, Sequence
from support.either import Place

SEQUENCES = int(os.environ.get("NODEMANAGER_EDGE_SEQUENCES", "4"))
SEED = int(os.environ.get("NODEMANAGER_EDGE_SEED") or examples.seed())
ENOUGH = 50
"""Of so many, each phase is there."""
pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(120 + SEQUENCES * 20)]


async def test_never_a_wrong_phase_and_never_a_write(place: Place, api: Api) -> None:
    seen: Counter[str] = Counter()
    async with edge_site.standing(place, api, FORGET) as site:
        await api.client.delete(EDGE_CLUSTERS, "site", place.namespace)
        with_set = site.daemon_set.bridge.daemon_set is not None
        for number in range(SEQUENCES):
            one = Sequence(site, SEED + number, with_set)
            await one.run()
            seen.update(one.told)
            if not (number + 1) % ENOUGH:  # for who waits for many, with pytest -s
                sys.stdout.write(f"{number + 1} sequences from {SEED} on\n")
                sys.stdout.flush()
    sys.stdout.write(
        f"{SEQUENCES} sequences from {SEED} on, {seen.total()} looks: {dict(seen.most_common())}\n"
    )
    if SEQUENCES >= ENOUGH:
        assert set(seen) == set(PHASES), "a phase that never comes is not tested"
