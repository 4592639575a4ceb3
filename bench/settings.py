"""How much to measure, and what every benchmark is given."""

from __future__ import annotations

from dataclasses import dataclass

from bench.processes import Endpoint


@dataclass(frozen=True, slots=True)
class Settings:
    """One run."""

    endpoint: Endpoint
    quick: bool = False
    """Measure little, to see that everything works; the numbers are not worth much."""

    lease: int = 60
    """Seconds that the Leases of hosts last that stay alive in `liveness`."""

    def pick(self, full: int, quick: int) -> int:
        """Return the amount for this run."""
        return quick if self.quick else full
