"""The interface of a virtualisation backend."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from nodemanager.backends.declaring import Declaring
from nodemanager.fleet.edge.machines import MachineFacts


@runtime_checkable
class Virtualisation(Declaring, Protocol):
    """A backend for virtual machines, or one for a site without any."""

    async def observe(self) -> MachineFacts:
        """Look at all of them, and change nothing; raise BackendError if there is nothing to be seen."""
