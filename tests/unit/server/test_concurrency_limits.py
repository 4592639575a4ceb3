"""Nobody keeps everybody else out, and every place is given back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.kube.rbac.identity import ANONYMOUS, User
from nodemanager.server.http.concurrency_limits import ConcurrencyLimit, claimant


def greedy(requests: ConcurrencyLimit, who: str, stack: contextlib.ExitStack) -> int:
    """Take all that can be had, and return how many that is."""
    before = requests.taken
    with contextlib.suppress(errors.TooManyRequests):
        while True:
            stack.enter_context(requests.take(who))
    return requests.taken - before


@given(st.integers(1, 500))
def test_one_who_takes_everything_leaves_something(limit: int) -> None:
    requests = ConcurrencyLimit(limit)
    with contextlib.ExitStack() as stack:
        first = greedy(requests, "a", stack)
        assert first >= limit * 3 / 4
        if limit >= 8:
            assert greedy(requests, "b", stack) > 0
            assert greedy(requests, "a", stack) == 0
        assert requests.taken <= limit
    assert requests.taken == 0
    with contextlib.ExitStack() as stack:
        assert greedy(requests, "a", stack) == first


@given(st.integers(0, 40), st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=200))
def test_there_are_never_more_than_the_limit(limit: int, acts: list[tuple[str, bool]]) -> None:
    requests = ConcurrencyLimit(limit)
    held: dict[str, list[contextlib.ExitStack]] = {who: [] for who in "abcd"}
    for who, more in acts:
        if more:
            place = contextlib.ExitStack()
            free, own = limit - requests.taken, len(held[who])
            refused = False
            try:
                place.enter_context(requests.take(who))
                held[who].append(place)
            except errors.TooManyRequests:
                refused = True
            assert refused == (own >= 3 * free)
        elif held[who]:
            held[who].pop().close()
        assert requests.taken == sum(map(len, held.values())) <= limit
    for places_of_one in held.values():
        for place in places_of_one:
            place.close()
    assert requests.taken == 0


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
