"""TLS of the running server: its certificate, renewed in place, and who may present client certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from nodemanager.server.http import private_files
from nodemanager.server.http.certs import SERVING_LIFETIME, Authority
from nodemanager.server.http.renewal import Renewed


class Serving(Renewed):
    """An SSL context whose certificate stays fresh; connections that are open keep the old one."""

    what = "serving certificate"
    lifetime = SERVING_LIFETIME

    def __init__(
        self, authority: Authority, path: Path, names: Sequence[str], clock: Callable[[], datetime]
    ) -> None:
        super().__init__(clock)
        self._authority = authority
        self._path = path
        self._names = tuple(names)
        self.context = _server_context(authority)
        self.renew()

    def renew(self) -> None:
        """Issue a new certificate; handshakes from now on present it."""
        issued = self._authority.issue_serving(self._names, self._clock())
        private_files.write(self._path, issued.pem)
        self.context.load_cert_chain(self._path)
        self.expires = issued.expires


def _server_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cadata=authority.pem.decode())
    # Optional, because most clients come with a token; a certificate that is sent must be ours.
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
