"""Certificates that are replaced before they end, while the server runs."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import ClassVar, Final

from nodemanager.server.http.certs import CertificateError
from nodemanager.server.http.private_files import UnsafeFile

LONGEST_WAIT: Final = timedelta(hours=1)
"""Longest time between two looks: the wall clock can jump (suspend, NTP), so a sleep of weeks is not safe."""
SHORTEST_WAIT: Final = timedelta(minutes=10)
"""An authority near its own end signs only short certificates; they are not renewed all the time."""

_log = logging.getLogger(__name__)


class Renewed(ABC):
    """Something with a certificate that stays fresh."""

    what: ClassVar[str]
    """What a log line calls it."""
    lifetime: ClassVar[timedelta]

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.expires = clock()

    @abstractmethod
    def renew(self) -> None:
        """Issue a new certificate, put it in place, and set `expires`."""

    @property
    def renew_before(self) -> timedelta:
        """How long before its end it is replaced: weeks in which a failure can be noticed."""
        return self.lifetime / 3

    @property
    def due(self) -> bool:
        """Whether the certificate should be replaced now, also because the clock was set back."""
        left = self.expires - self._clock()
        return left <= self.renew_before or left > self.lifetime

    async def keep_fresh(self) -> None:
        """Renew whenever it is due, until cancelled. A failure is logged and tried again."""
        while True:
            await asyncio.sleep(self._wait().total_seconds())
            if not self.due:
                continue
            try:
                self.renew()
            except (OSError, CertificateError, UnsafeFile) as err:
                left = self.expires - self._clock()
                _log.error("cannot renew the %s, %d days left: %s", self.what, left.days, err)
            else:
                _log.info("renewed the %s, valid until %s", self.what, self.expires.isoformat())

    def _wait(self) -> timedelta:
        left = self.expires - self.renew_before - self._clock()
        return min(max(left, SHORTEST_WAIT), LONGEST_WAIT)
