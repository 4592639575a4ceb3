"""Names in a claim: for whom a host is visited, and which task takes another one back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def claim(maintenance: str, state: State = State.WORKING, group: str = "") -> Claim:
    return Claim(maintenance, "u1", "u2", "r1", 1, state, NOW, NOW, NOW, group=group)


@pytest.mark.parametrize(
    ("name", "upgrade", "repairs", "about"),
    [
        pytest.param("patch", False, "", "nodemaintenance/patch", id="a maintenance"),
        pytest.param(claims.for_upgrade("web1"), True, "", "managednode/web1", id="an upgrade"),
        pytest.param(claims.for_repair("base"), False, "base", "configset/base", id="a repair"),
    ],
)
def test_for_which_object_a_host_is_visited(name: str, upgrade: bool, repairs: str, about: str) -> None:
    found = claim(name)
    assert (found.is_upgrade, found.repairs, found.object) == (upgrade, repairs, about)


def test_the_task_that_takes_another_one_back_names_it() -> None:
    assert claims.undo_name("web1-0a1b2c3d4e") == "web1-0a1b2c3d4e-undo"
    assert claims.taken_back(claims.undo_name("web1-0a1b2c3d4e")) == "web1-0a1b2c3d4e"
    assert claims.taken_back("web1-0a1b2c3d4e") == ""


@pytest.mark.parametrize("state", list(State))
def test_a_host_is_held_until_the_end_and_until_its_group_has_its_lease_back(state: State) -> None:
    ended = state in (State.DONE, State.UNDONE, State.HALTED)
    assert state.is_end is ended
    assert claim("patch", state).holds is not ended
    assert claim("patch", state, group="web").holds


def test_the_name_of_a_task_is_bounded_and_says_its_host() -> None:
    name = claims.task_name("web1", "u1", "r1", "u2", 1)
    assert name.startswith("web1-")
    assert (
        len({name, *(claims.task_name("web1", *one, 1) for one in (("u", "1r1", "u2"), ("u1", "r1u2", "")))})
        == 3
    )
    assert claims.task_name("web1", "u1", "r1", "u2", 2) != name
    long = claims.task_name("a" * 199 + ".b", "u1", "r1", "u2", 1)
    assert len(long) == 199 + 11
