"""Plain JSON over one TLS connection, as anybody: what a differential test asks the judge with.

It has no retries, no typed objects and no opinions: status, body and headers come back as sent.
"""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from support.apiserver import ApiServer


class Answer(NamedTuple):
    """One response."""

    code: int
    body: Any
    warnings: list[str]


def client_context(
    api: ApiServer, user: str = "admin", group: str | None = "system:masters"
) -> ssl.SSLContext:
    """Return the TLS settings of a user; without a name, of somebody without a certificate."""
    context = ssl.create_default_context()
    api.ca.configure_trust(context)
    if user:
        leaf = api.ca.issue_cert("user.test", common_name=user, organization_name=group)
        with tempfile.NamedTemporaryFile(dir=api.folder, suffix=".pem") as pem:
            Path(pem.name).write_bytes(leaf.private_key_and_cert_chain_pem.bytes())
            context.load_cert_chain(pem.name)
    return context


class Connection:
    """One user's connection to a server."""

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        address = urlsplit(server)
        self._connection = http.client.HTTPSConnection(
            str(address.hostname), address.port, timeout=30, context=context
        )

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request and return what came back."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, sent)
        response = self._connection.getresponse()
        content = response.read()
        is_json = response.headers.get_content_type() == "application/json"
        parsed = json.loads(content) if is_json else content.decode()
        return Answer(response.status, parsed, response.headers.get_all("Warning") or [])


class RawApi(Connection):
    """One user's connection to a kube-apiserver."""

    def __init__(self, api: ApiServer, user: str = "admin", group: str | None = "system:masters") -> None:
        super().__init__(api.server, client_context(api, user, group))

    def as_user(self, user: str, method: str, path: str, body: Any = None) -> Answer:
        """Send one request in somebody's name."""
        return self.ask(method, path, body, {"Impersonate-User": user})
