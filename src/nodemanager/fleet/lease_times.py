"""How long the heartbeat Lease of a host lasts, as far as the host is believed about that. Pure."""

from __future__ import annotations

from typing import Final

DEFAULT_DURATION: Final = 60.0
MIN_DURATION: Final = 10.0
MAX_DURATION: Final = 600.0
"""A host says how long its Lease lasts; it can neither flood us nor hide for a week by that."""


def believed(duration: float | None) -> float:
    """Return the seconds that a Lease lasts."""
    return min(max(duration or DEFAULT_DURATION, MIN_DURATION), MAX_DURATION)
