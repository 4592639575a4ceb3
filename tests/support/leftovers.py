"""Fails the test that leaves something open behind, and not a later one during which it is collected.

A socket that is part of a cycle is found by the garbage collector, whenever that comes by. Here it comes by
after every test, and looks only at what is younger than the test, which takes less than a millisecond.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Leave out of the next collection all that is there already."""
    gc.freeze()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Collect what the test left behind, and say so if something of it was open."""
    try:
        result = yield
        getattr(item, "funcargs", {}).clear()  # fixtures have ended, and are not kept for anybody
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            gc.collect()
    finally:
        gc.unfreeze()
    if said:
        left = "\n".join(str(one.message) for one in said)
        pytest.fail(f"left behind, see where with PYTHONTRACEMALLOC=20:\n{left}", pytrace=False)
    return result
