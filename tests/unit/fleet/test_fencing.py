"""Fencing tokens of tasks: who took which, and that the next one is above every one before."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_TOKEN
from nodemanager.fleet.tasks import fencing
from nodemanager.kube.objects import ObjectMeta

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
STAMP = int(NOW.timestamp())


def host(said: str | None) -> ManagedNode:
    notes = {} if said is None else {ANNOTATION_TOKEN: said}
    return ManagedNode(metadata=ObjectMeta(name="web1", annotations=notes))


@pytest.mark.parametrize(
    ("said", "token"),
    [
        pytest.param("7 a", 7, id="its own"),
        pytest.param("7 b", 0, id="of another task"),
        pytest.param("7", 0, id="of nobody"),
        pytest.param("x a", 0, id="no number"),
        pytest.param("-7 a", 0, id="below all"),
        pytest.param(None, 0, id="nothing"),
    ],
)
def test_a_token_is_that_of_the_task_that_took_it(said: str | None, token: int) -> None:
    assert fencing.token_of(host(said), "a") == token


@pytest.mark.parametrize(
    ("said", "token"),
    [
        pytest.param(None, STAMP, id="none before"),
        pytest.param("7 a", STAMP, id="an old one"),
        pytest.param(f"{STAMP - 1} a", STAMP, id="of the last second"),
        pytest.param(f"{STAMP} a", STAMP + 1, id="of the same second"),
        pytest.param(f"{STAMP + 900} a", STAMP + 901, id="of a clock that was ahead"),
        pytest.param("x a", STAMP, id="no number"),
    ],
)
def test_the_next_token_is_above_every_one_before(said: str | None, token: int) -> None:
    found = fencing.newer_token(host(said), "b", NOW)
    assert found == f"{token} b"
    assert fencing.token_of(host(found), "b") == token


def test_a_host_that_was_made_anew_gets_a_token_above_those_that_it_has_forgotten() -> None:
    before = fencing.token_of(host(fencing.newer_token(host(None), "a", NOW)), "a")
    later = datetime.fromtimestamp(STAMP + 1, UTC)
    assert fencing.token_of(host(fencing.newer_token(host(None), "b", later)), "b") > before


def test_a_token_is_never_the_number_that_says_that_there_is_none() -> None:
    """However wrong the clock is."""
    found = fencing.newer_token(host(None), "a", datetime.fromtimestamp(0, UTC))
    assert found == "1 a"
    assert fencing.token_of(host(found), "a") == 1
