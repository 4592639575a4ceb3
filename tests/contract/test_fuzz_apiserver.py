"""The whole embedded server against kube-apiserver: random requests, the same answers.

`NODEMANAGER_FUZZ_SEQUENCES` and `NODEMANAGER_FUZZ_SEED` make the run longer, or another one; with
`--log-cli-level=INFO` it tells at its end how much was compared.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from support.apiserver import ApiServer
from support.fuzz_sequences import Arena, arena

LOG = logging.getLogger(__name__)
SEQUENCES = int(os.environ.get("NODEMANAGER_FUZZ_SEQUENCES", "25"))
SEED = int(os.environ.get("NODEMANAGER_FUZZ_SEED", "1"))
KINDS = 5
"""How many custom kinds there are at a time."""
RENEWED = 40
"""After how many sequences they are replaced by others."""


@pytest.fixture
async def both(kube: ApiServer) -> AsyncIterator[Arena]:
    async with arena(kube) as servers:
        yield servers
        LOG.info("%d sequences, %d requests compared", servers.sequences, servers.asked)


@pytest.mark.timeout(60 + 2 * SEQUENCES)
@seed(SEED)
@settings(
    max_examples=SEQUENCES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(sequence=st.integers(0, 2**64))
async def test_random_sequences_of_requests_end_the_same(both: Arena, sequence: int) -> None:
    if both.sequences % RENEWED == 0:
        await both.define(Random(sequence), KINDS)
    await both.run(sequence)
