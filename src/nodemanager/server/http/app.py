"""The application: every request comes through here, and is limited, admitted, routed and answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from nodemanager.kube import errors
from nodemanager.kube.rbac.identity import Attributes
from nodemanager.server.collection import namespace_and_crd_deletion
from nodemanager.server.collection.collector import Collector
from nodemanager.server.http import answers, health, negotiation, observation, routing
from nodemanager.server.http.concurrency_limits import ConcurrencyLimit, claimant, is_exempt
from nodemanager.server.http.gate import Gate, peer_of
from nodemanager.server.http.negotiation import Shape
from nodemanager.server.http.observation import Observation, Page, RequestObserver
from nodemanager.server.http.response_memory_limit import ResponseMemoryLimit
from nodemanager.server.hub import ApiAnswer, ApiCall, Hub
from nodemanager.server.kinds import crds, namespaces
from nodemanager.server.kinds.builtin_kinds import CRDS
from nodemanager.server.openapi import discovery
from nodemanager.server.verbs import deletion, patching, read, selection, stored, watch, write
from nodemanager.store.base import StoreClosed, StoreError

LOG = logging.getLogger(__name__)
MAX_BODY = 3 * 2**20
MAX_QUERY = 64 * 1024
BODY_TIMEOUT = 30.0
REQUEST_TIMEOUT = 60.0
DEPRECATION = web.RequestKey("deprecation", str)
"""The place in a request for the warning about its deprecated version."""

Handler = Callable[[Hub, ApiCall], Awaitable[ApiAnswer]]


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """What the server is given at its start."""

    max_in_flight: int = 400
    """How many reads, without watches, are worked on at a time; other clients have to come back.

    One user gets only a share of reads, of writes and of watches: see `concurrency_limits`.
    """
    max_mutating: int = 200
    """How many writes are; they are counted apart, so that slow bodies do not keep readers out."""
    max_watches: int = 5000
    namespaces: tuple[str, ...] = ()
    """Namespaces that are there from the start, besides Kubernetes' own."""
    handlers: Mapping[tuple[str, str], Handler] = field(default_factory=dict)
    """Handlers that replace the verbs, by resource and subresource: (pods, eviction), (tokenreviews, "")."""
    pages: Sequence[Page] = ()
    """Asked one after the other about paths that are neither resources nor discovery."""
    observers: Sequence[RequestObserver] = ()
    """Called with every request."""


async def _get(hub: Hub, call: ApiCall) -> ApiAnswer:
    return read.get(hub, call)


async def _list(hub: Hub, call: ApiCall) -> ApiAnswer:
    await hub.turn.take()
    return read.list_objects(hub, call)


_HANDLERS: dict[str, Handler] = {
    "get": _get,
    "list": _list,
    "create": write.create,
    "update": write.update,
    "patch": patching.patch,
    "delete": deletion.delete,
    "deletecollection": deletion.delete_collection,
}


_READS = ("get", "list")


class HttpApi:
    """The Kubernetes API over one hub."""

    def __init__(self, hub: Hub, gate: Gate, settings: ApiSettings | None = None) -> None:
        self.hub = hub
        self._gate = gate
        self._settings = settings or ApiSettings()
        self._reading = ConcurrencyLimit(self._settings.max_in_flight)
        self._mutating = ConcurrencyLimit(self._settings.max_mutating)
        self._watching = ConcurrencyLimit(self._settings.max_watches)
        self._response_memory = ResponseMemoryLimit()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._state = "starting"
        self._health = health.ServerHealth(hub.store, lambda: self._state)

    @property
    def watching(self) -> int:
        """How many watches are open."""
        return self._watching.taken

    def application(self) -> web.Application:
        """Return the aiohttp application; it owns the background work, not the store."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", r"/{path:[\s\S]*}", self._handle)  # a newline is a character, too
        app.cleanup_ctx.append(self._background)
        app.on_shutdown.append(self._shut_down)
        app.on_response_prepare.append(_without_software)
        app.on_response_prepare.append(_with_deprecation)
        return app

    async def _background(self, _app: web.Application) -> AsyncIterator[None]:
        await namespaces.ensure(self.hub, *namespaces.DEFAULT, *self._settings.namespaces)
        for record in self.hub.store.list(CRDS.prefix()).records:
            crds.serve(self.hub.catalogue, stored.load(CRDS, record))
        tasks = [
            asyncio.create_task(Collector(self.hub).run(), name="garbage collector"),
            asyncio.create_task(
                namespace_and_crd_deletion.finish_forever(self.hub), name="end of namespaces and definitions"
            ),
        ]
        self._state = ""
        yield
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _shut_down(self, _app: web.Application) -> None:
        await self.drain(0)

    async def drain(self, seconds: float) -> None:
        """End watches and let requests end. Call it before aiohttp stops, which drops unread bodies."""
        self._state = "stopping"
        self.hub.closing.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, and report it to the observers."""
        started = asyncio.get_running_loop().time()
        seen = observation.observed(request)
        try:
            response = await self._answer_or_refuse(request, seen)
            if seen.kind is None or response.status >= 400:  # what `_work` answers is laid out already
                answers.prettify(request, response)
            seen.answered(response)
            if self.hub.closing.is_set():
                response.force_close()  # no further request on this connection
        finally:
            seen.seconds = asyncio.get_running_loop().time() - started
            for observer in self._settings.observers:
                observer.ended(seen)
        return response

    async def _answer_or_refuse(self, request: web.Request, seen: Observation) -> web.StreamResponse:
        """Answer one request; any error becomes a Status."""
        try:
            return await self._answer(request, seen)
        except errors.StatusError as error:
            return _refused(error)
        except StoreClosed as error:
            return answers.refusal(errors.ServiceUnavailable(f"cannot store: {error}"))
        except (
            StoreError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
        ) as error:  # fmt: skip
            LOG.exception("cannot answer %s %s", request.method, request.path)
            return answers.refusal(errors.InternalError(f"Internal error occurred: {type(error).__name__}"))

    async def _answer(self, request: web.Request, seen: Observation) -> web.StreamResponse:
        if len(request.query_string) > MAX_QUERY:
            raise errors.BadRequest(f"cannot read the query: longer than {MAX_QUERY} characters")
        query = dict(request.query)
        info = seen.info = routing.parse(request.method, request.rel_url.raw_path, query)
        if not info.is_resource and health.is_open(info.path):
            return await self._health.answer(request, info.path)
        asked = _attributes(info, query)
        headers = list(request.headers.items())
        try:
            user = self._gate.admit(peer_of(request), headers, asked)
        except errors.Forbidden:  # they may not act as another user; the log has to show who tried
            own = [(name, value) for name, value in headers if not name.lower().startswith("impersonate-")]
            seen.who = self._gate.admit(peer_of(request), own, asked)
            raise
        seen.user, seen.who = user.name, user
        self._gate.authorize(user, asked)
        if not info.is_resource:
            return await self._page(request, info)
        kind = seen.kind = routing.resolve(info, self.hub.catalogue)
        request[DEPRECATION] = kind.warning
        for observer in self._settings.observers:
            observer.begun(seen)
        call = ApiCall(
            info, kind, query, user, negotiation.choose(request.headers.get("Accept", "")),
            user_agent=request.headers.get("User-Agent", ""),
        )  # fmt: skip
        if info.verb == "watch":
            return await self._watch(call, request)
        return await self._work(call, request, seen)

    async def _work(self, call: ApiCall, request: web.Request, seen: Observation) -> web.StreamResponse:
        with self._counted(call, request):
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT):
                    # The body of a read is not waited for: a slow one would take the place of other requests.
                    body = seen.sent = b"" if call.info.verb in _READS else await _body(request)
                    call = ApiCall(
                        call.info, call.kind, call.query, call.user, call.form, body,
                        request.headers.get("Content-Type", ""), call.user_agent,
                    )  # fmt: skip
                    answer = await self._handler(call)(self.hub, call)
            except TimeoutError as error:
                text = f"Timeout: request did not complete within {REQUEST_TIMEOUT:g}s"
                raise errors.ServerTimeout(text) from error
            response = answers.respond(answer, call, self.hub.now())
            answers.prettify(request, response)
            del answer  # it may be large, and sending may take long
            return await answers.send(request, response, self._response_memory)

    @contextlib.contextmanager
    def _counted(self, call: ApiCall, request: web.Request) -> Iterator[None]:
        """Count the request while it is worked on, or refuse it."""
        limit = self._reading if call.info.verb in _READS else self._mutating
        try:
            with limit.take(claimant(call.user, request.remote), exempt=is_exempt(call.user)):
                self._quiet.clear()
                yield
        finally:
            if not self._mutating.taken + self._reading.taken:
                self._quiet.set()

    def _handler(self, call: ApiCall) -> Handler:
        # Found by name alone, so only for built-in kinds: a custom kind may have the same name.
        name = (call.kind.plural, call.info.subresource)
        special = None if call.kind.custom else self._settings.handlers.get(name)
        return special or _HANDLERS[call.info.verb]

    async def _watch(self, call: ApiCall, request: web.Request) -> web.StreamResponse:
        with self._watching.take(claimant(call.user, request.remote), exempt=is_exempt(call.user)):
            return await watch.serve(self.hub, call, request, self._response_memory)

    async def _page(self, request: web.Request, info: routing.RequestInfo) -> web.Response:
        if health.is_ours(info.path):
            return await self._health.answer(request, info.path)
        return self._document(request, info)

    def _document(self, request: web.Request, info: routing.RequestInfo) -> web.Response:
        aggregated = discovery.aggregated(info.path, self.hub.catalogue)
        if aggregated is not None and "as=APIGroupDiscoveryList" in request.headers.get("Accept", ""):
            form = negotiation.choose(request.headers["Accept"], discovery=True)
            if form.shape is Shape.DISCOVERY:
                return answers.encoded(aggregated, form)
        body = discovery.document(info.path, self.hub.catalogue, request.host)
        if body is None:
            found = (page(request) for page in self._settings.pages)
            answer = next((response for response in found if response is not None), None)
            if answer is None:
                raise routing.PageNotFound("404 page not found")
            return answer
        if request.method not in ("GET", "HEAD"):
            raise errors.NotAllowed(
                "the server does not allow this method on the requested resource",
                details=errors.StatusDetails(),
            )
        return answers.encoded(body, negotiation.choose(request.headers.get("Accept", ""), discovery=True))


async def _body(request: web.Request) -> bytes:
    """Return the body, within its bounds of size and time."""
    if not request.can_read_body:
        return b""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise errors.UnsupportedType("cannot read the body: it has a Content-Encoding; send it as it is")
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        text = f"Request entity too large: limit is {MAX_BODY}"
        raise errors.TooLarge(text) from error
    except (web.RequestPayloadError, HttpProcessingError, ConnectionError) as error:
        raise errors.BadRequest("cannot read the body: it is broken, or its client is gone") from error
    except TimeoutError as error:
        raise errors.BadRequest(
            f"cannot read the body: it did not arrive within {BODY_TIMEOUT:g} s"
        ) from error


async def _with_deprecation(request: web.Request, response: web.StreamResponse) -> None:
    """Warn users of a deprecated version in every answer."""
    if warning := request.get(DEPRECATION):
        answers.warn_first(response, warning)


async def _without_software(_request: web.Request, response: web.StreamResponse) -> None:
    """Send no `Server` header, which would help attackers to choose an attack."""
    response.headers.pop(hdrs.SERVER, None)


def _attributes(info: routing.RequestInfo, query: Mapping[str, str]) -> Attributes:
    if not info.is_resource:
        return Attributes(info.verb, path=info.path)
    name = info.name
    if not name and info.verb in ("list", "watch", "deletecollection") and query.get("fieldSelector"):
        with contextlib.suppress(errors.BadRequest):  # refused later, where the kind is known
            tests = selection.parse_fields(query["fieldSelector"])
            name = selection.ObjectSelector(fields=tests).name
    return Attributes(
        info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, name
    )


def _refused(error: errors.StatusError) -> web.Response:
    if isinstance(error, routing.PageNotFound):
        return answers.plain_text("404 page not found\n", 404)
    if isinstance(error, watch.Expired):
        return web.Response(body=watch.error_line(error), content_type="application/json")
    return answers.refusal(error)
