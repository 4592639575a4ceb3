"""The administrator's kubeconfig, the first way into a new server."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from nodemanager.kube.rbac.identity import MASTERS
from nodemanager.server.http import private_files
from nodemanager.server.http.certs import CLIENT_LIFETIME, Authority, Issued
from nodemanager.server.http.renewal import Renewed

ADMIN: Final = "admin"
CONTEXT: Final = "nodemanager"
_UNUSABLE = (
    private_files.UnsafeFile, yaml.YAMLError, InvalidSignature,
    LookupError, TypeError, ValueError, RecursionError,
)  # fmt: skip
"""What can be raised when a file is read that we did not write, or that was changed since."""


def kubeconfig(server: str, authority: Authority, client: Issued) -> bytes:
    """Return a kubeconfig for one user of one server, complete in itself."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {"server": server, "certificate-authority-data": _inline(authority.pem)},
            }
        ],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": ADMIN}}],
        "users": [
            {
                "name": ADMIN,
                "user": {
                    "client-certificate-data": _inline(client.certificate),
                    "client-key-data": _inline(client.key),
                },
            }
        ],
    }
    return yaml.safe_dump(config, sort_keys=False, width=10_000).encode()


class AdminConfig(Renewed):
    """The kubeconfig of a member of system:masters, for its owner alone.

    A file that is there stays as it is while it leads to this server and is not due: copies of it
    in other places then last as long as it does. An old certificate stays good until its own end.
    """

    what = "certificate in the administrator's kubeconfig"
    lifetime = CLIENT_LIFETIME

    def __init__(self, path: Path, server: str, authority: Authority, clock: Callable[[], datetime]) -> None:
        super().__init__(clock)
        self._path = path
        self._server = server
        self._authority = authority
        present = self._present()
        if present is not None:
            self.expires = present.expires
        if present is None or self.due:
            self.renew()

    def renew(self) -> None:
        """Write the file anew, with a new certificate."""
        client = self._authority.issue_client(ADMIN, [MASTERS], self._clock())
        private_files.write(self._path, kubeconfig(self._server, self._authority, client))
        self.expires = client.expires

    def _present(self) -> Issued | None:
        """Return the certificate of the file that is there, if the file is what we would write with it."""
        try:
            data = private_files.read(self._path) or b""
            user = yaml.safe_load(data)["users"][0]["user"]
            pem, key = (base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
            certificate = x509.load_pem_x509_certificate(pem)
            certificate.verify_directly_issued_by(self._authority.certificate)
        except _UNUSABLE:
            return None
        client = Issued(pem, key, certificate.not_valid_after_utc)
        return client if kubeconfig(self._server, self._authority, client) == data else None


def _inline(data: bytes) -> str:
    return base64.b64encode(data).decode()
