"""Credentials that do not change by themselves, and how to combine several."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from nodemanager.client.auth.config import Anonymous, Credentials, Headers, TlsIdentity
from nodemanager.kube.errors import ConfigError


class BearerToken(Anonymous):
    """A token that never changes."""

    def __init__(self, token: str, *, source: str = "the kubeconfig"):
        self.token = token
        self._headers = bearer_headers(token, source)

    async def headers(self) -> Headers:
        """Return the token."""
        return self._headers


class BasicAuth(Anonymous):
    """A user name and password; for proxies in front of an API server, which itself has no such thing."""

    def __init__(self, username: str, password: str):
        pair = base64.b64encode(f"{username}:{password}".encode("utf-8", "surrogatepass"))
        self._headers = {"Authorization": f"Basic {pair.decode('ascii')}"}

    async def headers(self) -> Headers:
        """Return the password."""
        return self._headers


class Impersonation(Anonymous):
    """Act as another user, as RBAC's `impersonate` verb allows."""

    def __init__(self, user: str, uid: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]):
        headers = {"Impersonate-User": [user], "Impersonate-Group": list(groups)}
        headers["Impersonate-Uid"] = [uid] if uid else []
        for key, values in extra.items():
            # Header names ignore case, so keys that differ in nothing else are one key to the server.
            name = "Impersonate-Extra-" + quote(key.lower(), safe="!#$&'*+-.^_`|~", errors="replace")
            headers.setdefault(name, []).extend(values)
        for name, values in headers.items():
            for value in values:
                if not _sendable(value):
                    raise ConfigError(f"cannot impersonate: {name}: {value!r}: use printable ASCII only")
        self._headers: Headers = {name: tuple(values) for name, values in headers.items() if values}

    async def headers(self) -> Headers:
        """Return the headers that name the other user."""
        return self._headers


class Combined:
    """Several credentials at once, such as a client certificate and an impersonation."""

    def __init__(self, parts: Sequence[Credentials]):
        self._parts = tuple(parts)

    async def headers(self) -> Headers:
        """Return the headers of all parts."""
        merged: dict[str, str | tuple[str, ...]] = {}
        for part in self._parts:
            merged.update(await part.headers())
        return merged

    async def tls_identity(self) -> TlsIdentity | None:
        """Return the certificate of the first part that has one."""
        for part in self._parts:
            if (identity := await part.tls_identity()) is not None:
                return identity
        return None

    async def refresh(self) -> bool:
        """Refresh every part; one that has something new is enough to try again."""
        return any([await part.refresh() for part in self._parts])


def combine(parts: Sequence[Credentials]) -> Credentials:
    """Return credentials that are all of `parts` at once."""
    if len(parts) == 1:
        return parts[0]
    return Combined(parts) if parts else Anonymous()


def bearer_headers(token: str, source: str) -> dict[str, str]:
    """Return the header that carries a token, or raise ConfigError that says which `source` is wrong."""
    if not _sendable(token) or " " in token:
        # The value stays out of the message: it is a secret, even when it is malformed.
        raise ConfigError(
            f"cannot use the token of {source}: it has a space, a line break or another"
            " character that no token has; write it again without quotes and line breaks"
        )
    return {"Authorization": f"Bearer {token}"}


def _sendable(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip() and value != ""
