"""Whether the API answers us, as seen from every request that is made anyway: nothing is sent to find out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NO_ANSWER: Final = "<error>"
"""What a client reports in place of a code when there was no answer."""
_NOBODY_HOME: Final = ("502", "503", "504")
"""What a load balancer answers in the place of an API server that is gone."""


class ApiState(StrEnum):
    """How we stand with the API."""

    UNKNOWN = "unknown"
    """Nothing was asked yet."""
    CONNECTED = "connected"
    ALONE = "alone"
    """It does not answer."""
    REFUSED = "refused"
    """It answers, and does not know us (any more)."""


@dataclass(eq=False, slots=True)
class Contact:
    """Told of every request (see `client.http.Observer`); knows what they add up to."""

    on_change: Callable[[], None] = lambda: None
    """Called when the state has changed."""
    clock: Callable[[], float] = time.time
    state: ApiState = ApiState.UNKNOWN
    since: float = 0.0
    """When the state began, in Unix time."""
    last: float = 0.0
    """When the API last answered; 0 = never."""

    def observe(self, _method: str, code: str, _seconds: float) -> None:
        """Take note of a request."""
        now = self.clock()
        if code == NO_ANSWER or code in _NOBODY_HOME:
            state = ApiState.ALONE
        else:
            self.last = now
            state = ApiState.REFUSED if code == "401" else ApiState.CONNECTED
        if state is not self.state:
            self.state, self.since = state, now
            self.on_change()
