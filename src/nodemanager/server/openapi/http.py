"""Requests for the documents: formats, hashes, caches. Only plain values, no sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodemanager.server.openapi import proto
from nodemanager.server.openapi.documents import Document, Documents

PREFIX_V3 = "/openapi/v3"
PATH_V2 = "/openapi/v2"
_JSON = "application/json"
_MAX_ACCEPT = 4096
_CACHE_TIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class OpenApiReply:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class OpenApiRequest:
    """A request, as far as it matters here."""

    path: str
    hash: str = ""
    """The query parameter of that name."""
    accept: str = ""
    if_none_match: str = ""


def respond(documents: Documents, question: OpenApiRequest, now: datetime) -> OpenApiReply:
    """Answer a GET of /openapi/v2, /openapi/v3 or a path below the latter."""
    path = question.path.rstrip("/")
    if path == PATH_V2:
        return _respond_v2(documents, question)
    if path == PREFIX_V3:
        return OpenApiReply(200, {"Content-Type": "text/plain; charset=utf-8"}, documents.index().body)
    document = documents.v3(path.removeprefix(f"{PREFIX_V3}/"))
    if document is None:
        return OpenApiReply(404)
    if _accepted(question.accept, (_JSON,)) is None:
        return OpenApiReply(406, {"Vary": "Accept"})
    if question.hash and question.hash != document.hash:
        # The asker has an old index: send it to the present document, which it then may keep.
        return OpenApiReply(301, {**_marks(document), "Location": f"{path}?hash={document.hash}"})
    return _respond_document(document, question, _freshness(question, now))


def _freshness(question: OpenApiRequest, now: datetime) -> dict[str, str]:
    """Return how long an answer may be kept: for good, when the address names its content."""
    if not question.hash:
        return {}
    expires = now + _CACHE_TIME
    return {"Cache-Control": "public, immutable", "Expires": expires.strftime("%a, %d %b %Y %H:%M:%S UTC")}


def _respond_document(
    document: Document, question: OpenApiRequest, freshness: dict[str, str]
) -> OpenApiReply:
    headers = {**_marks(document), **freshness}
    if question.if_none_match == document.etag:
        return OpenApiReply(304, headers)
    return OpenApiReply(200, {**headers, "Content-Type": _JSON}, document.body)


def _respond_v2(documents: Documents, question: OpenApiRequest) -> OpenApiReply:
    chosen = _accepted(question.accept, (_JSON, proto.MEDIA_TYPE))
    if chosen is None:
        return OpenApiReply(406, {"Vary": "Accept"})
    document = documents.v2()
    if chosen == _JSON or question.if_none_match == document.etag:
        return _respond_document(document, question, {})
    headers = {**_marks(document), "Content-Type": proto.CONTENT_TYPE}
    return OpenApiReply(200, headers, documents.v2_protobuf())


def _marks(document: Document) -> dict[str, str]:
    return {"ETag": document.etag, "Vary": "Accept"}


def _accepted(accept: str, served: tuple[str, ...]) -> str | None:
    """Return the first format of an Accept header that is served; the first of ours when it has none."""
    if not accept.strip():
        return served[0]
    for clause in accept[:_MAX_ACCEPT].split(","):
        media = clause.partition(";")[0].strip().lower()
        if media in served:
            return media
        if media in ("*/*", "application/*"):
            return served[0]
    return None
