"""For how long this process has seen all reports of hosts: time that it did not observe proves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

JUMP_SECONDS: Final = 30.0
"""A larger jump means that the clock was set, and not only corrected; or that the process was stopped."""


@dataclass(slots=True)
class SteadyClock:
    """Starts with the first look of this process, and again after an outage or a jump of the clock."""

    _since: float | None = None
    _offset: float = 0.0
    """The difference of the wall clock from the monotonic clock."""

    def watched(self, now: datetime, monotonic: float, steady_since: float) -> float:
        """Return for how many seconds no report was missed; `steady_since` is the end of the last outage."""
        offset = now.timestamp() - monotonic
        if self._since is None or abs(offset - self._offset) > JUMP_SECONDS:
            self._since, self._offset = monotonic, offset
        return monotonic - max(self._since, steady_since)
