"""The verbs of the Kubernetes API, typed by resource.

Every call has a deadline that covers connecting, credentials, retries and reading. A 401 is
answered once with fresh credentials, a 429 or 503 with `Retry-After` is waited for while the
deadline allows; everything else is raised for the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from nodemanager.client import patches
from nodemanager.client.calls import DELETE, EVERYWHERE, WRITE, Call, DeleteOptions, Selection, WriteOptions
from nodemanager.client.http.transport import Response, Transport, read_all
from nodemanager.client.watch import Malformed, Page, Watch, decode_page
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped

T = TypeVar("T")
PAGE_SIZE = 500
SMALL_PAGE = 25
WATCH_IDLE_TIMEOUT = 90.0
"""A healthy API server sends a bookmark every minute; silence beyond this is a dead stream."""
WATCH_HEADERS_TIMEOUT = 60.0

Observer = Callable[[str, str, float], None]
"""Called with method, code (or "<error>") and seconds of every request, for metrics."""


class Client:
    """Talks to one API server. Safe to share between tasks; close it at the end."""

    def __init__(
        self,
        transport: Transport,
        *,
        guard: Callable[[], None] | None = None,
        observe: Observer | None = None,
    ) -> None:
        self._transport = transport
        self._guard = guard
        self._observe = observe

    def guarded(self, guard: Callable[[], None]) -> Client:
        """Return a client over the same connections that calls `guard` before every write.

        A leader that may have been deposed raises there, so that it sends no write any more.
        """
        return Client(self._transport, guard=guard, observe=self._observe)

    def through(self, wrap: Callable[[Transport], Transport]) -> Client:
        """Return a client whose requests go through another transport first, which sees their results."""
        return Client(wrap(self._transport), guard=self._guard, observe=self._observe)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    # Reading

    async def get(self, resource: Resource[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        """Return one object."""
        call = Call(
            "GET", resource.path(namespace, name, subresource), _doing("get", resource, namespace, name), {}
        )
        return _decode(resource.type, await self.send(call), call)

    async def page(
        self,
        resource: Resource[T],
        selection: Selection = EVERYWHERE,
        *,
        limit: int = PAGE_SIZE,
        continue_token: str = "",
    ) -> Page[T]:
        """Return one page of a list."""
        query = selection.query()
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        doing = f"list {resource.qualified_name}{selection}"
        body = await self.send(Call("GET", resource.path(selection.namespace), doing, query))
        return decode_page(resource, body)

    async def list(
        self,
        resource: Resource[T],
        selection: Selection = EVERYWHERE,
        keep: Callable[[T], T] | None = None,
        *,
        most: int | None = None,
    ) -> Page[T]:
        """Return a whole list as one page: read page by page, begun anew once when a page expired.

        With `keep`, it has of each object only what that returns, and never more of them than a small page.
        A list of more than `most` is read no further, and is TooLong.
        """
        try:
            return await self._all_pages(resource, selection, keep, most)
        except errors.Gone:
            page = await self.page(resource, selection, limit=0 if most is None else most + 1)
            _bound(resource, selection, page, most)
            return replace(page, items=_kept(page.items, keep))

    async def _all_pages(
        self, resource: Resource[T], selection: Selection, keep: Callable[[T], T] | None, most: int | None
    ) -> Page[T]:
        items: list[T] = []
        malformed: list[Malformed] = []
        token, limit = "", PAGE_SIZE if keep is None else SMALL_PAGE
        while True:
            page = await self.page(resource, selection, limit=limit, continue_token=token)
            items += _kept(page.items, keep)
            malformed += page.malformed
            whole = replace(page, items=items, malformed=malformed)
            _bound(resource, selection, whole, most)
            if not (token := page.continue_token):
                return whole

    async def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYWHERE,
        *,
        resource_version: str = "",
        initial_events: bool = False,
        server_timeout: int = 300,
        idle_timeout: float = WATCH_IDLE_TIMEOUT,
    ) -> Watch[T]:
        """Open a watch; with `initial_events` it begins with the present objects and a marking bookmark."""
        query = {
            **selection.query(),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(server_timeout),
        }
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        elif resource_version:
            query["resourceVersion"] = resource_version
        doing = f"watch {resource.qualified_name}{selection}"
        call = Call("GET", resource.path(selection.namespace), doing, query, timeout=WATCH_HEADERS_TIMEOUT)
        return Watch(resource, await self._open(call), idle_timeout)

    # Writing

    async def create(
        self,
        resource: Resource[T],
        obj: T | Mapping[str, Any],
        namespace: str = "",
        *,
        options: WriteOptions = WRITE,
    ) -> T:
        """Create an object and return it as the server stored it."""
        body = resource.encode(obj)
        doing = _doing("create", resource, namespace)
        call = Call("POST", resource.path(namespace), doing, options.query(), body)
        return _decode(resource.type, await self.send(call), call)

    async def update(
        self, resource: Resource[T], obj: Untyped, *, subresource: str = "", options: WriteOptions = WRITE
    ) -> T:
        """Replace an object that was read untyped, with nothing of it lost. Typed objects are patched."""
        if not isinstance(obj, dict):
            raise TypeError(
                f"cannot update {resource.kind} from a typed object: unknown fields would be lost"
            )
        meta = obj.get("metadata", {})
        namespace, name = meta.get("namespace", ""), meta.get("name", "")
        path = resource.path(namespace, name, subresource)
        doing = _doing("update", resource, namespace, name)
        call = Call("PUT", path, doing, options.query(), resource.encode(obj))
        return _decode(resource.type, await self.send(call), call)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        namespace: str,
        patch: patches.Patch,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> T:
        """Change a part of an object and return the whole."""
        query = options.query()
        if isinstance(patch, patches.ApplyPatch):
            patch = _named_apply(patch, resource, name, namespace)
            query |= {"force": "true"} if patch.force else {}
        what = f"{resource.qualified_name}/{subresource}" if subresource else resource.qualified_name
        doing = f"patch {what} {namespace + '/' if namespace else ''}{name}"
        path = resource.path(namespace, name, subresource)
        call = Call("PATCH", path, doing, query, patches.encode(patch), patch.content_type)
        return _decode(resource.type, await self.send(call), call)

    async def delete(
        self, resource: Resource[Any], name: str, namespace: str = "", *, options: DeleteOptions = DELETE
    ) -> None:
        """Delete an object, or set its deletion timestamp when finalizers hold it."""
        path = resource.path(namespace, name)
        await self.send(Call("DELETE", path, _doing("delete", resource, namespace, name), {}, options.body()))

    async def delete_collection(
        self, resource: Resource[Any], selection: Selection, *, options: DeleteOptions = DELETE
    ) -> None:
        """Delete every object that is selected."""
        doing = f"delete all {resource.qualified_name}{selection}"
        path = resource.path(selection.namespace)
        await self.send(Call("DELETE", path, doing, selection.query(), options.body()))

    async def create_subresource(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str,
        subresource: str,
        body: Mapping[str, Any],
        *,
        retry: bool = True,
    ) -> Untyped:
        """POST to a subresource: TokenRequest, eviction, binding."""
        path = resource.path(namespace, name, subresource)
        doing = f"create {resource.qualified_name}/{subresource} of {namespace}/{name}"
        call = Call("POST", path, doing, {}, msgspec.json.encode(body), retry=retry)
        return _decode(dict, await self.send(call), call)

    # Sending

    async def send(self, call: Call) -> bytes:
        """Send a call and return the whole body of its answer."""
        with _named(call):
            async with asyncio.timeout(call.timeout):
                response = await self._answer(call)
                try:
                    return await read_all(response)
                finally:
                    await response.close()

    async def _open(self, call: Call) -> Response:
        """Send a call whose body the caller reads; the deadline covers the headers only."""
        with _named(call):
            async with asyncio.timeout(call.timeout):
                return await self._answer(call)

    async def _answer(self, call: Call) -> Response:
        """Return the first answer that is not a refusal, with the retries the server asked for."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + call.timeout
        refreshed = False
        while True:
            response = await self._send_once(call)
            if response.status < 300:
                return response
            try:
                body = await read_all(response, limit=1024 * 1024)
            finally:
                await response.close()
            error = errors.from_response(response.status, body, response.headers).during(call.doing)
            if isinstance(error, errors.Unauthorized) and not refreshed:
                refreshed = True
                if await self._transport.reauthenticate():
                    continue
            if not call.retry or error.code not in (429, 503) or error.retry_after is None:
                raise error
            if loop.time() + error.retry_after >= deadline:
                raise error
            await asyncio.sleep(error.retry_after)

    async def _send_once(self, call: Call) -> Response:
        request = call.request(self._guard)
        if request.guard is not None:
            request.guard()  # cheap, and spares us the way; the transport asks again at its end
        started = asyncio.get_running_loop().time()
        code = "<error>"
        try:
            response = await self._transport.send(request)
            code = str(response.status)
        finally:
            if self._observe is not None:
                self._observe(call.method, code, asyncio.get_running_loop().time() - started)
        return response


@contextlib.contextmanager
def _named(call: Call) -> Iterator[None]:
    """Put what we were about to do in front of an error from below."""
    try:
        yield
    except TimeoutError as error:
        raise errors.TimedOut(f"cannot {call.doing}: no answer within {call.timeout:g} s") from error
    except errors.TransportError as error:
        raise type(error)(f"cannot {call.doing}: {error}") from error


def _named_apply(
    patch: patches.ApplyPatch, resource: Resource[Any], name: str, namespace: str
) -> patches.ApplyPatch:
    """Put in what an apply must say of itself and the caller has said already."""
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **patch.body.get("metadata", {})}
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return replace(patch, body={**kind, **patch.body, "metadata": meta})


def _bound(resource: Resource[T], selection: Selection, page: Page[T], most: int | None) -> None:
    if most is not None and len(page.items) + len(page.malformed) > most:
        raise errors.TooLong(f"cannot list {resource.qualified_name}{selection}: there are more than {most}")


def _kept(items: list[T], keep: Callable[[T], T] | None) -> list[T]:
    return items if keep is None else [keep(one) for one in items]


def _doing(verb: str, resource: Resource[Any], namespace: str, name: str = "") -> str:
    key = f" {namespace}/{name}" if namespace and name else f" {name}" if name else ""
    where = f" in namespace {namespace!r}" if namespace and not name else ""
    return f"{verb} {resource.qualified_name}{key}{where}"


def _decode(kind: type[T], body: bytes, call: Call) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except errors.UNREADABLE as error:
        raise errors.ProtocolError(f"cannot {call.doing}: the answer does not decode: {error}") from error
