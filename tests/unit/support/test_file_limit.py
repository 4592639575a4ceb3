"""A server in the process of a test leaves its limit of open files as it was; else nothing forks after it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import policy_server, seeds, whole_server

Limits = tuple[int, int]


@pytest.fixture
def low() -> Iterator[Limits]:
    """Have fewer files than we may have, as most shells do."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = (min(1024, before[1] - 1), before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, lower)
    yield lower
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def limits() -> Limits:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


async def test_a_whole_server_leaves_the_limit_as_it_was(tmp_path: Path, low: Limits) -> None:
    async with whole_server.serving(tmp_path):
        assert limits() != low
    assert limits() == low


def test_so_does_one_in_a_thread(tmp_path: Path, low: Limits) -> None:
    with policy_server.embedded(tmp_path):
        assert limits() != low
    assert limits() == low


def test_so_does_one_that_makes_the_seed_of_others(low: Limits) -> None:
    assert seeds._seed.__wrapped__()
    assert limits() == low
