"""Steps that an agent carries out by no means: of kinds it does not know, or without `--edge`."""

from __future__ import annotations

import pytest

from nodemanager.agent.tasks import attempts
from nodemanager.agent.tasks.attempts import Attempt
from nodemanager.host.base import HostError
from nodemanager.plan.tasks.record import StepRecord


class BondFlipAction:
    """Something to do."""


ATTEMPT = Attempt("key", 60.0, StepRecord())


async def test_what_a_newer_agent_took_fails_and_says_what_to_do() -> None:
    for act in (attempts.UNKNOWN.perform, attempts.UNKNOWN.settle, attempts.UNKNOWN.take_back):
        result = await act(BondFlipAction(), ATTEMPT)
        assert not result.succeeded
        assert result.message.endswith("does not know the kind of the step; upgrade it")


async def test_a_plain_host_refuses_what_is_for_edge_sites_at_every_moment() -> None:
    refused = "cannot do BondFlip: the agent of this host runs without --edge"
    with pytest.raises(HostError, match=refused):
        await attempts.NOT_AT_EDGE.prepare(BondFlipAction())
    for act in (attempts.NOT_AT_EDGE.perform, attempts.NOT_AT_EDGE.take_back):
        with pytest.raises(HostError, match=refused):
            await act(BondFlipAction(), ATTEMPT)
