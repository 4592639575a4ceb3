"""For how long this process has seen all that hosts say: time without witnesses proves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

JUMP_SECONDS: Final = 30.0
"""By so much a clock is set, rather than corrected; or the process was stopped meanwhile."""


@dataclass(slots=True)
class SteadyClock:
    """Begins with the first look of this process, and anew after an outage or a jump of the clock."""

    _since: float | None = None
    _offset: float = 0.0
    """Of the clock on the wall, from the one that never jumps."""

    def watched(self, now: datetime, monotonic: float, steady_since: float) -> float:
        """Return the seconds for which nothing went unseen; `steady_since` is the end of the last outage."""
        offset = now.timestamp() - monotonic
        if self._since is None or abs(offset - self._offset) > JUMP_SECONDS:
            self._since, self._offset = monotonic, offset
        return monotonic - max(self._since, steady_since)
