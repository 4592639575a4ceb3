"""The whole embedded server against kube-apiserver: random requests, the same answers.

`NODEMANAGER_FUZZ_SEQUENCES` and `NODEMANAGER_FUZZ_SEED` make the run longer, or another one; with
`--log-cli-level=INFO` it tells at its end how much was compared. Seed and number name a sequence for good,
whatever else changes: `NODEMANAGER_FUZZ_FIRST` begins with the one that a difference was found in.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from random import Random

import pytest

from support.apiserver import ApiServer
from support.fuzz_sequences import Arena, Unlike, arena

LOG = logging.getLogger(__name__)
SEQUENCES = int(os.environ.get("NODEMANAGER_FUZZ_SEQUENCES", "25"))
SEED = int(os.environ.get("NODEMANAGER_FUZZ_SEED", "1"))
FIRST = int(os.environ.get("NODEMANAGER_FUZZ_FIRST", "0"))
KINDS = 5
"""How many custom kinds there are at a time."""
RENEWED = 40
"""After how many sequences they are replaced by others."""


@pytest.fixture
async def both(kube: ApiServer) -> AsyncIterator[Arena]:
    async with arena(kube) as servers:
        yield servers
        LOG.info("%d sequences of seed %d, %d requests compared", servers.sequences, SEED, servers.asked)


@pytest.mark.timeout(60 + 2 * SEQUENCES)
async def test_random_sequences_of_requests_end_the_same(both: Arena) -> None:
    defined = -1
    for number in range(FIRST, FIRST + SEQUENCES):
        if number // RENEWED != defined:
            defined = number // RENEWED
            await both.define(Random(f"{SEED}: kinds {defined}"), KINDS)
        try:
            await both.run(Random(f"{SEED}: sequence {number}"))
        except Unlike as error:
            error.add_note(f"sequence {number} of seed {SEED}")
            raise
