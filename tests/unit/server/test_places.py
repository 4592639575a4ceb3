"""Nobody keeps everybody else out, and every place is given back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.kube.rbac.identity import ANONYMOUS, User
from nodemanager.server.http.places import Places, claimant


def greedy(places: Places, who: str, stack: contextlib.ExitStack) -> int:
    """Take all that can be had, and return how many that is."""
    before = places.taken
    with contextlib.suppress(errors.TooManyRequests):
        while True:
            stack.enter_context(places.take(who))
    return places.taken - before


@given(st.integers(1, 500))
def test_one_who_takes_everything_leaves_something(limit: int) -> None:
    places = Places(limit)
    with contextlib.ExitStack() as stack:
        first = greedy(places, "a", stack)
        assert first >= limit * 3 / 4
        if limit >= 8:
            assert greedy(places, "b", stack) > 0
            assert greedy(places, "a", stack) == 0
        assert places.taken <= limit
    assert places.taken == 0
    with contextlib.ExitStack() as stack:
        assert greedy(places, "a", stack) == first


@given(st.integers(0, 40), st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=200))
def test_there_are_never_more_than_the_limit(limit: int, acts: list[tuple[str, bool]]) -> None:
    places = Places(limit)
    held: dict[str, list[contextlib.ExitStack]] = {who: [] for who in "abcd"}
    for who, more in acts:
        if more:
            place = contextlib.ExitStack()
            free, own = limit - places.taken, len(held[who])
            refused = False
            try:
                place.enter_context(places.take(who))
                held[who].append(place)
            except errors.TooManyRequests:
                refused = True
            assert refused == (own >= 3 * free)
        elif held[who]:
            held[who].pop().close()
        assert places.taken == sum(map(len, held.values())) <= limit
    for places_of_one in held.values():
        for place in places_of_one:
            place.close()
    assert places.taken == 0


@pytest.mark.parametrize(
    ("user", "address", "whose"),
    [
        ("jane", "192.0.2.1", "user jane"),
        (ANONYMOUS, "192.0.2.1", "address 192.0.2.1"),
        (ANONYMOUS, "2001:db8:1:2:3:4:5:6", "network 2001:db8:1:2::/64"),
        (ANONYMOUS, "fe80::1%eth0", "network fe80::/64"),
        (ANONYMOUS, None, "address unknown"),
    ],
)
def test_whose_share_it_is(user: str, address: str | None, whose: str) -> None:
    assert claimant(User(user), address) == whose
