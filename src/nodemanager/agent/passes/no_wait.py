"""What is done without waiting: whoever waits keeps the host from everything else that is to be done."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from nodemanager.host.apply import Locks, Tools
from nodemanager.host.base import HostError, ServiceManager

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class NoWait:
    """The tools that do not wait, where there are such; other tools take their place where there are none."""

    services: ServiceManager | None = None
    """The service manager for repairs: it does not wait to see whether what it started stays up."""
    locks: Locks | None = None
    """Locks that are not waited for: while another host holds one, nothing else on this host waits for it."""
    unread: set[str] = field(default_factory=set)
    """Users whose service manager has yet to notice what repairs enabled; empty is the host's own."""

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
