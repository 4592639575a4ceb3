"""A site without virtual machines."""

from __future__ import annotations

from typing import Final

from nodemanager.api.edge import capabilities
from nodemanager.fleet.edge.machines import MachineFacts

NAME: Final = "none"


class NoVirtualisation:
    """There is nothing to look at."""

    name = NAME
    capabilities = capabilities.VIRTUALISATION.choices[NAME]

    async def observe(self) -> MachineFacts:
        """Say that there is nothing, which is not that all is well."""
        return MachineFacts(sees_machines=False)
