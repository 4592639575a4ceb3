"""The address of an API and our identity there: the result of every way to configure a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

Headers = Mapping[str, str | tuple[str, ...]]
"""Header values by name; several values are sent as several lines."""


class TlsIdentity(NamedTuple):
    """A client certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "TlsIdentity(...)"  # a key must not end up in a log through a traceback


class Credentials(Protocol):
    """Our credentials, read before every request so that they may rotate."""

    async def headers(self) -> Headers:
        """Return the headers that authenticate a request."""

    async def tls_identity(self) -> TlsIdentity | None:
        """Return the client certificate to present, if there is one."""

    async def refresh(self) -> bool:
        """React to a 401: drop what is cached; tell whether trying again may help."""


class Anonymous:
    """No credentials at all."""

    async def headers(self) -> Headers:
        """Return no headers."""
        return {}

    async def tls_identity(self) -> TlsIdentity | None:
        """Return no certificate."""
        return None

    async def refresh(self) -> bool:
        """Nothing can change."""
        return False


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Everything needed to talk to one API server as one user."""

    server: str
    """Base URL, such as `https://10.0.0.1:6443` or `https://rancher.example/k8s/clusters/c-1`."""
    namespace: str = "default"
    """Namespace of the context, for commands without one."""
    ca: bytes | None = None
    """PEM bundle that the server must chain to; None = the system's trust store."""
    tls_server_name: str = ""
    """Name to check the server certificate against, if it differs from the host in `server`."""
    insecure: bool = False
    """Do not verify the server certificate."""
    proxy: str = ""
    """URL of a proxy, or empty for a direct connection."""
    credentials: Credentials = field(default_factory=Anonymous)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the kubeconfig of a host declares for it."""
    source: str = ""
    """Where this came from, for messages: a file and context, or "the service account of this pod"."""
