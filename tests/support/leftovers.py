"""Fails the test that leaves something open behind, and not a later one during which it is collected.

A socket that is part of a cycle is found by the garbage collector, whenever that comes by. Here it comes by
after every test, and looks only at what is younger than the test, which takes less than a millisecond.

A connection that is about to close is no better: whether it has when the event loop of the test ends depends
on who else uses the machine. So nothing may be open by then.

Nor may programs inherit something else than before: an ignored signal, a limit, a umask. Later tests of the
same worker would start other programs than they do alone.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import warnings
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Final

import pytest

from support import inheritance

_BEFORE: Final = pytest.StashKey[Mapping[str, str]]()
_open_at_the_end: list[str] = []


class Loop(asyncio.SelectorEventLoop):
    """An event loop that tells what is open when it is about to end."""

    def __init__(self) -> None:
        self._listening = selectors.DefaultSelector()
        super().__init__(self._listening)
        self._own = {key.fd for key in self._listening.get_map().values()}

    async def shutdown_asyncgens(self) -> None:
        """Look, as nobody does anything any more: the tasks have ended."""
        await super().shutdown_asyncgens()
        self._look()

    def _look(self) -> None:
        for key in self._listening.get_map().values():
            if key.fd not in self._own:
                waiting = ", ".join(str(one) for one in key.data if one is not None)
                _open_at_the_end.append(f"open {_what(key.fd)} of {waiting}")


def _what(descriptor: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except FileNotFoundError:
        return "although closed"


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names = sorted(before.keys() | now.keys())
    both = [(name, before.get(name), now.get(name)) for name in names]
    return [f"programs inherit another {name}: {now}, was {old}" for name, old, now in both if old != now]


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every test on such a loop."""
    return {"told": Loop}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Note how it was before: the next collection leaves out all that is there already."""
    item.stash[_BEFORE] = inheritance.of_children()
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
        left = _open_at_the_end[:]
        _open_at_the_end.clear()
    left += [str(one.message) for one in said]
    if left := left + _changed(item.stash[_BEFORE], inheritance.of_children()):
        lines = "\n".join(left)
        pytest.fail(f"left behind, see where with PYTHONTRACEMALLOC=20:\n{lines}", pytrace=False)
    return result
