"""How long to wait after the n-th failure in a row."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential, capped, with jitter so that a thousand agents do not come back in one second."""

    base: float = 0.1
    maximum: float = 300.0
    factor: float = 2.0
    jitter: float = 0.2
    """Share of the delay that is random: 0.2 means between 80 % and 100 % of it."""
    random: Callable[[], float] = random.random

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row (1 = the first)."""
        if failures < 1:
            return 0.0
        # The exponent is capped, too: 2.0 ** 2000 raises instead of being large.
        full = min(self.maximum, self.base * self.factor ** min(failures - 1, 64))
        return full * (1.0 - self.jitter * self.random())
