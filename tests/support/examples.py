"""Which examples a test of a property tries, and how many: few in every run, and more when asked.

A run by hand tries others than the run before, and so finds what nobody thought of. The gate that a change
has to pass (`CI`, as build machines set it) tries the same ones for the same code, so that what it refuses is
a fault of the change.
"""

from __future__ import annotations

import os
import random
from typing import Final

TIMES: Final = int(os.environ.get("NODEMANAGER_TEST_EXAMPLES", "1"))
SAME: Final = os.environ.get("CI", "").lower() in {"true", "1"}


def some(number: int) -> int:
    """Return how many examples to try where `number` are enough for every day."""
    return number * TIMES


def seed() -> int:
    """Return where to begin with random examples. A test that fails says it."""
    return 7 if SAME else random.SystemRandom().randrange(2**32)
