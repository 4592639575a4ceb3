"""TLS of the running server: its certificate, renewed in place, and who may present client certificates."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from nodemanager.server import private_files
from nodemanager.server.certs import SERVING_LIFETIME, Authority, CertificateError

RENEW_BEFORE: Final = SERVING_LIFETIME / 3
"""How long before its end a certificate is replaced: weeks in which a failure can be noticed."""
LONGEST_WAIT: Final = timedelta(hours=1)
"""The wall clock can jump (suspend, NTP), so nobody sleeps for weeks at a time."""
SHORTEST_WAIT: Final = timedelta(minutes=10)
"""An authority near its own end signs only short certificates; they are not renewed all the time."""

_log = logging.getLogger(__name__)


class Serving:
    """An SSL context whose certificate stays fresh; connections that are open keep the old one."""

    def __init__(
        self, authority: Authority, path: Path, names: Sequence[str], clock: Callable[[], datetime]
    ) -> None:
        self._authority = authority
        self._path = path
        self._names = tuple(names)
        self._clock = clock
        self.context = _server_context(authority)
        self.expires = clock()
        self.renew()

    @property
    def due(self) -> bool:
        """Whether the certificate should be replaced now, also because the clock was set back."""
        left = self.expires - self._clock()
        return left <= RENEW_BEFORE or left > SERVING_LIFETIME

    def renew(self) -> None:
        """Issue a new certificate; handshakes from now on present it."""
        issued = self._authority.issue_serving(self._names, self._clock())
        private_files.write(self._path, issued.pem)
        self.context.load_cert_chain(self._path)
        self.expires = issued.expires

    async def keep_fresh(self) -> None:
        """Renew whenever it is due, until cancelled. A failure is logged and tried again."""
        while True:
            await asyncio.sleep(self._wait().total_seconds())
            if not self.due:
                continue
            try:
                self.renew()
            except (OSError, CertificateError) as err:
                left = self.expires - self._clock()
                _log.error("cannot renew the serving certificate, %d days left: %s", left.days, err)
            else:
                _log.info("renewed the serving certificate, valid until %s", self.expires.isoformat())

    def _wait(self) -> timedelta:
        left = self.expires - RENEW_BEFORE - self._clock()
        return min(max(left, SHORTEST_WAIT), LONGEST_WAIT)


def _server_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cadata=authority.pem.decode())
    # Optional, because most clients come with a token; a certificate that is sent must be ours.
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
