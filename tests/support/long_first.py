"""Tests that take long begin first, so that no worker is left alone with one at the end."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)  # after the order was made random
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move them to the front, the longest first, where it is known how long they take."""
    items.sort(key=_seconds, reverse=True)


def _seconds(item: pytest.Item) -> int:
    marker = item.get_closest_marker("long")
    if marker is None:
        return 0
    return int(marker.args[0]) if marker.args else 10
