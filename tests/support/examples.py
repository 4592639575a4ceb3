"""How many examples a test of a property tries: few in every run, each run others, and more when asked."""

from __future__ import annotations

import os
from typing import Final

TIMES: Final = int(os.environ.get("NODEMANAGER_TEST_EXAMPLES", "1"))


def some(number: int) -> int:
    """Return how many examples to try where `number` are enough for every day."""
    return number * TIMES
