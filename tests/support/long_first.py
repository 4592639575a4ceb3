"""Tests that take long begin first, so that no worker is left alone with one at the end."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)  # after the order was made random
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move them to the front, in whatever order they have."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
