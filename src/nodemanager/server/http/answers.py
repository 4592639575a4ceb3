"""From what a handler returns to bytes: objects, lists, Tables, metadata, and Status for refusals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.server.http.negotiation import JSON, Form, Shape
from nodemanager.server.http.response_memory_limit import ResponseMemoryLimit
from nodemanager.server.hub import ApiAnswer, ApiCall
from nodemanager.server.verbs import stored, tables

LOG = logging.getLogger(__name__)
MAX_WARNINGS = 4096
"""Characters of all warnings together; if there are more, each warning is cut, as in Kubernetes."""
PIECE = 64 * 1024
WRITE_TIMEOUT = 30.0
"""Seconds that a client gets to take one piece."""
MAX_WARNING = 256
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_BROWSERS = ("curl", "Wget", "Mozilla/5.0")
"""Clients that show answers to people, as Kubernetes guesses."""


def respond(answer: ApiAnswer, call: ApiCall, now: datetime) -> web.Response:
    """Return the HTTP response of an answer in the form the client asked for."""
    body = shape(answer.body, call, now)
    return encoded(body, call.form, answer.status, answer.warnings)


class Stream(web.StreamResponse):
    """An answer that is written piece by piece, and counts how much was written."""

    sent = 0

    async def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        """Write one piece."""
        self.sent += len(data)
        await super().write(data)


async def send(
    request: web.Request, response: web.Response, memory: ResponseMemoryLimit
) -> web.StreamResponse:
    """Send a large body piece by piece, so that a client that does not read cannot keep it in memory.

    Small ones are returned as they are; the framework sends them.
    """
    body = response.body
    if not isinstance(body, bytes) or len(body) <= PIECE or request.method == "HEAD":
        return response
    streamed = Stream(status=response.status, headers=response.headers)
    streamed.content_length = len(body)
    try:
        with memory.holding(len(body), request.transport):
            await streamed.prepare(request)
            await write_pieces(streamed, body, WRITE_TIMEOUT)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        LOG.debug("the client of %s is gone", request.path)
    return streamed


async def write_pieces(response: Stream, body: bytes, seconds: float) -> None:
    """Write a body no faster than the client takes it; raise TimeoutError when it takes nothing."""
    for start in range(0, len(body), PIECE):
        async with asyncio.timeout(seconds):
            await response.write(body[start : start + PIECE])


def encoded(body: Any, form: Form, status: int = 200, warnings: tuple[str, ...] = ()) -> web.Response:
    """Return a response with that body."""
    response = web.Response(
        body=form.encode(body), status=status, headers={"Content-Type": form.content_type}
    )
    _warn(response, warnings)
    response.headers["Cache-Control"] = "no-cache, private"
    return response


def _warn(response: web.Response, warnings: tuple[str, ...]) -> None:
    for warning in _fitting(warnings):
        response.headers.add("Warning", f'299 - "{_quoted(warning)}"')


def warn_first(response: web.StreamResponse, warning: str) -> None:
    """Put a warning in front of those that a response has already."""
    others = response.headers.popall("Warning", [])
    for value in (f'299 - "{_quoted(warning)}"', *others):
        response.headers.add("Warning", value)


def prettify(request: web.Request, response: web.StreamResponse) -> None:
    """Indent JSON if the user wants that, or the client shows it to people."""
    if not isinstance(response, web.Response) or response.content_type != JSON:
        return
    if isinstance(response.body, bytes) and _wants_pretty(request):
        response.body = msgspec.json.format(response.body, indent=2)


def _wants_pretty(request: web.Request) -> bool:
    if wanted := request.query.get("pretty"):
        return wanted in _TRUE
    return request.headers.get("User-Agent", "").startswith(_BROWSERS)


def refusal(error: errors.StatusError) -> web.Response:
    """Return the HTTP response of a refusal."""
    response = web.json_response(body=msgspec.json.encode(status_body(error)), status=error.status.code)
    if error.details.retry_after_seconds:
        response.headers["Retry-After"] = str(error.details.retry_after_seconds)
    _warn(response, error.warnings)
    response.headers["Cache-Control"] = "no-cache, private"
    return response


def status_body(error: errors.StatusError) -> Untyped:
    """Return the `Status` of a refusal."""
    body: Untyped = msgspec.to_builtins(error.status)
    body.setdefault("status", "Failure")
    if error.status.details is not None:
        body["details"] = msgspec.to_builtins(error.status.details)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **body}


def shape(body: Any, call: ApiCall, now: datetime) -> Any:
    """Return an object or a list as whole, metadata only, or Table."""
    form = call.form
    if form.shape is Shape.WHOLE or not isinstance(body, dict) or body.get("kind") == "Status":
        return body
    is_list = "items" in body and body.get("kind") != call.kind.kind
    if form.shape is Shape.TABLE:
        return tables.table(call.kind, body, call.query.get("includeObject", ""), now)
    if is_list is not (form.shape is Shape.METADATA_LIST):
        wanted, found = form.shape.value, "is a list" if is_list else "is not a list"
        raise errors.NotAcceptable(f"you requested {wanted}, but the requested object {found}")
    if not is_list:
        return stored.metadata_of(body)
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.list_meta(body),
        "items": [stored.metadata_of(item) for item in body["items"]] or None,
    }


class WatchLine(NamedTuple):
    """One event of a watch; the object is whole, or its text where nothing else is asked for."""

    type: str
    obj: Any


class EventShaper:
    """Writes the events of one watch; only the first Table repeats the columns."""

    def __init__(self, call: ApiCall, now: Callable[[], datetime]) -> None:
        self._call = call
        self._now = now
        self._columns_sent = False

    def pieces(self, lines: Iterable[WatchLine]) -> Iterator[bytes]:
        """Yield lines as bytes to write: many small ones together, and never much at a time."""
        held: list[bytes] = []
        size = 0
        for line in lines:
            held.append(self.encode(*line))
            size += len(held[-1])
            del line  # it may be large, and sending may take long
            if size >= PIECE:
                yield b"".join(held)
                held, size = [], 0
        if held:
            yield b"".join(held)

    def encode(self, kind: str, obj: Any) -> bytes:
        """Return one line of the stream."""
        shaped: Any = obj
        form = self._call.form
        if form.shape is Shape.TABLE:
            shaped = tables.table(
                self._call.kind, obj, self._call.query.get("includeObject", ""), self._now()
            )
            if kind == "BOOKMARK":
                shaped["rows"] = []
            if self._columns_sent:
                shaped["columnDefinitions"] = None
            self._columns_sent = True
        elif form.shape in (Shape.METADATA, Shape.METADATA_LIST):
            shaped = stored.metadata_of(obj)
        return msgspec.json.encode({"type": kind, "object": shaped}) + b"\n"


def plain_text(text: str, status: int = 200) -> web.Response:
    """Return a response that is no JSON."""
    return web.Response(text=text, status=status, content_type="text/plain")


def _fitting(warnings: tuple[str, ...]) -> list[str]:
    """Return each warning once, as many and as much of them as headers may hold."""
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) <= MAX_WARNINGS:
        return texts
    kept, written = [], 0
    for text in texts:
        if written >= MAX_WARNINGS:
            break
        kept.append(text[:MAX_WARNING])
        written += len(kept[-1])
    return kept


def _quoted(text: str) -> str:
    flat = "".join(char if char.isprintable() else " " for char in text)
    return flat.replace("\\", "\\\\").replace('"', '\\"')
