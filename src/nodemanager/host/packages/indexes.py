"""When the indexes of repositories are refreshed: when needed, and not too often."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from nodemanager.host.base import HostError, WantedPackage
from nodemanager.host.packages.common import LATEST_SECONDS, UNKNOWN_SECONDS, Offer, unoffered
from nodemanager.host.process.runner import RunError

log = logging.getLogger(__name__)

Ask = Callable[[], Awaitable[Mapping[str, Offer]]]


class Indexes:
    """The indexes of one host."""

    def __init__(
        self,
        clock: Callable[[], float],
        refresh: Callable[[], Awaitable[None]],
        age: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self._clock = clock
        self._refresh = refresh
        self._age = age
        self._tried = float("-inf")
        self._newest: Mapping[str, str] = {}
        self._asked: tuple[str, ...] | None = None
        self._answered = float("-inf")

    async def newest(self, names: Sequence[str], ask: Ask) -> Mapping[str, str]:
        """Return the newest versions by indexes that are fresh, or as fresh as can be had now.

        The answer is kept for a while, because it is asked for in every pass.
        """
        if self._asked == tuple(names) and self._clock() - self._answered < UNKNOWN_SECONDS:
            return self._newest
        if self._since() >= LATEST_SECONDS and self._age() >= LATEST_SECONDS:
            await self._try()
        offers = await ask()
        if unoffered([WantedPackage(name) for name in names], offers) and self._since() >= UNKNOWN_SECONDS:
            await self._try()
            offers = await ask()
        self._newest = {name: offers[name].newest for name in names if name in offers}
        self._asked, self._answered = tuple(names), self._clock()
        return self._newest

    async def offers(self, wanted: Sequence[WantedPackage], ask: Ask) -> Mapping[str, Offer]:
        """Return what is offered; if that is not all that is wanted, of fresh indexes."""
        offers = await ask()
        if unoffered(wanted, offers) and self._since() >= UNKNOWN_SECONDS:
            await self.refresh()
            offers = await ask()
        return offers

    async def refresh(self) -> None:
        """Refresh now; the time counts even if it fails."""
        self._tried = self._clock()
        self._asked = None
        await self._refresh()

    async def _try(self) -> None:
        try:
            await self.refresh()
        except (HostError, RunError) as error:  # offline: the indexes of yesterday are better than none
            log.warning("going on with the package indexes as they are: %s", error)

    def _since(self) -> float:
        return self._clock() - self._tried
