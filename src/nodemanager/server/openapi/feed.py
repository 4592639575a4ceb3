"""The OpenAPI documents of what is served right now."""

from __future__ import annotations

from aiohttp import web

from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import CRDS
from nodemanager.server.openapi import http
from nodemanager.server.openapi.documents import Documents
from nodemanager.server.openapi.kinds import published


class Feed:
    """Builds the documents at a request, and again when a definition has changed since."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._seen: tuple[tuple[str, int], ...] | None = None
        self._documents: Documents | None = None

    def page(self, request: web.Request) -> web.Response | None:
        """Answer requests for /openapi/v2 and below /openapi/v3; None for all others."""
        if not request.path.startswith("/openapi/"):
            return None
        headers = request.headers
        question = http.OpenApiRequest(
            request.path, request.query.get("hash", ""), headers.get("Accept", ""),
            headers.get("If-None-Match", ""),
        )  # fmt: skip
        reply = http.respond(self.documents(), question, self._hub.now())
        return web.Response(status=reply.status, headers=dict(reply.headers), body=reply.body)

    def documents(self) -> Documents:
        """Return the documents; those of groups that did not change are kept."""
        records = self._hub.store.list(CRDS.prefix()).records
        seen = tuple((record.key, record.revision) for record in records)
        if self._documents is None or seen != self._seen:
            kinds = [published(kind) for kind in self._hub.catalogue]
            known = self._documents
            self._documents = Documents(kinds) if known is None else known.replaced(kinds)
            self._seen = seen
        return self._documents
