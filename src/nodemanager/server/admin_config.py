"""The administrator's kubeconfig, the first way into a new server."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path
from typing import Final

import yaml

from nodemanager.api.identity import MASTERS
from nodemanager.server import private_files
from nodemanager.server.certs import Authority, Issued

ADMIN: Final = "admin"
CONTEXT: Final = "nodemanager"


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


def write(path: Path, server: str, authority: Authority, now: datetime) -> None:
    """Write the kubeconfig of a member of system:masters, with a new certificate, for its owner alone."""
    client = authority.issue_client(ADMIN, [MASTERS], now)
    private_files.write(path, kubeconfig(server, authority, client))


def _inline(data: bytes) -> str:
    return base64.b64encode(data).decode()
