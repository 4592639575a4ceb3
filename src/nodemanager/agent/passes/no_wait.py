"""Tools that do not wait, because waiting keeps the host from all other work."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from nodemanager.host.apply import Locks, Tools
from nodemanager.host.base import HostError, ServiceManager

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class NoWait:
    """Tools that do not wait, if there are such; other tools take the place of missing ones."""

    services: ServiceManager | None = None
    """The service manager for repairs: it does not check whether started services stay up."""
    locks: Locks | None = None
    """Locks without waiting: while another host holds one, no other work on this host waits for it."""
    unread: set[str] = field(default_factory=set)
    """Users whose service manager has not read enabled units yet; empty name = that of the host."""

    def in_pass(self, tools: Tools) -> Tools:
        """Return the tools for the stages of a pass."""
        return replace(tools, locks=self.locks or tools.locks)

    def in_repair(self, tools: Tools) -> Tools:
        """Return the tools for a repair."""
        return replace(self.in_pass(tools), services=self.services or tools.services)

    async def refresh(self, tools: Tools) -> None:
        """Have service managers read what repairs enabled: for about a second, they do not answer."""
        manager = self.services or tools.services
        while manager is not None and self.unread:
            try:
                await manager.refresh(self.unread.pop())
            except HostError as error:
                log.warning("%s", error)
