"""What is asked of whatever runs virtual machines."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from nodemanager.backends.declaring import Declaring
from nodemanager.fleet.edge.machines import MachineFacts


@runtime_checkable
class Virtualisation(Declaring, Protocol):
    """Something that runs virtual machines, or nothing that does."""

    async def observe(self) -> MachineFacts:
        """Look at all of them, and change nothing; raise BackendError if there is nothing to be seen."""
