"""Steps that an agent carries out by no means: of kinds it does not know, or without `--edge`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodemanager.agent.edge import steps
from nodemanager.agent.tasks import attempts, tasking
from nodemanager.agent.tasks.attempts import Attempt, Performer
from nodemanager.api.maintenance.edge_steps import EDGE_ACTIONS
from nodemanager.api.maintenance.task_steps import ACTIONS
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


class Anything:
    """What performers are made with; they do not look at it until they have something to do."""

    edge = None

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __fspath__(self) -> str:
        return "/nowhere"

    def __call__(self, *_args: object, **_more: object) -> Any:
        return Anything()


def test_every_action_has_a_performer_and_no_other() -> None:
    anything: Any = Anything()
    made = tasking._performers(anything, "boot", anything, anything)
    assert tuple(made) == ACTIONS
    assert made["bond_flip"] is attempts.NOT_AT_EDGE


def test_every_action_of_edge_sites_has_a_performer_and_no_other(tmp_path: Path) -> None:
    host: Any = SimpleNamespace(
        tree=SimpleNamespace(root=str(tmp_path)),
        converger=SimpleNamespace(observer=SimpleNamespace(run=None)),
        state=None,
        identity=SimpleNamespace(hostname="a"),
    )
    anything: Any = None
    made = steps.performers(host, anything, anything, anything, lambda: None)
    assert attempts.for_all(EDGE_ACTIONS, made) == made


@pytest.mark.parametrize("actions", [("reboot", "packages"), ()])
def test_a_table_of_performers_that_differs_from_the_actions_is_an_error(actions: tuple[str, ...]) -> None:
    """Every agent that starts, in any test, has its whole table checked so."""
    given: dict[str, Performer] = {"reboot": attempts.UNKNOWN}
    with pytest.raises(LookupError, match=r"steps of tasks: (packages|reboot) is"):
        attempts.for_all(actions, given)
