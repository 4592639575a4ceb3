"""`/healthz`, `/livez`, `/readyz` and `/metrics`, as kubelets and Prometheus expect them.

A check is a function that returns None when all is well, and otherwise the reason. Each one
has its own path (`/readyz/caches`); `?verbose` lists them and `?exclude=NAME` leaves one out.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from nodemanager.kube import errors
from nodemanager.kube.wording import shorten
from nodemanager.runtime import metrics as metrics_
from nodemanager.runtime import tiny_http
from nodemanager.runtime.backoff import Backoff
from nodemanager.runtime.tiny_http import Reply

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
RETRY = Backoff(base=0.5, maximum=10.0)
MAX_REASON = 500
"""Characters of a check's reason that we repeat."""

Check = Callable[[], str | None]
Checks = Mapping[str, Check]


class ListenAddress(NamedTuple):
    """Where to listen; an empty host means every interface."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, *, default_host: str = LOOPBACK) -> ListenAddress | None:
    """Read `:8080`, `10.0.0.1:8080`, `[::1]:8080` or `localhost:0`; `0` means not at all, hence None.

    Without a host it is `default_host`, which is loopback: a wider address must be explicit.
    """
    if text.strip() == "0":
        return None
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        raise errors.ConfigError(f"cannot listen on {text!r}: no port; write ':8080', or '0' for not at all")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise errors.ConfigError(f"cannot listen on {text!r}: {port!r} is not a port from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or "[" in host or "]" in host:
        raise errors.ConfigError(f"cannot listen on {text!r}: write an IPv6 address as '[::1]:8080'")
    return ListenAddress(host or default_host, int(port))


@dataclass(frozen=True)
class Routes:
    """What is served; the part that is left None is not found."""

    _: KW_ONLY
    health: Checks | None = None
    """Whether this process should be restarted: `/healthz` and `/livez`."""
    readiness: Checks | None = None
    """Whether this process is of use: `/readyz`."""
    metrics: metrics_.Registry | None = None

    def __call__(self, method: str, target: str) -> Reply:
        """Answer one request."""
        try:
            url = urlsplit(target)
            query = parse_qs(url.query, keep_blank_values=True, max_num_fields=100)
        except ValueError:
            return Reply(HTTPStatus.BAD_REQUEST, b"bad request target\n")
        document = self._find(unquote(url.path).rstrip("/"), query)
        if document is None:
            return Reply(HTTPStatus.NOT_FOUND, b"404 page not found\n")
        if method not in ("GET", "HEAD"):
            return Reply(HTTPStatus.METHOD_NOT_ALLOWED, b"method not allowed\n", allow="GET, HEAD")
        return document()

    def _find(self, path: str, query: Mapping[str, list[str]]) -> Callable[[], Reply] | None:
        """Return what makes the answer for a path, if there is something at it."""
        if path == "/metrics":
            registry = self.metrics
            return None if registry is None else lambda: _render(registry)
        _, _, rest = path.partition("/")
        surface, slash, name = rest.partition("/")
        checks = {"healthz": self.health, "livez": self.health, "readyz": self.readiness}.get(surface)
        if checks is None:
            return None
        if not slash:
            return lambda: _summary(surface, checks, query)
        check = checks.get(name)
        return None if check is None else lambda: _single(name, check)


def _why(error: OSError) -> str:
    """Return why it is impossible to listen there; asyncio repeats where."""
    if error.errno == errno.EADDRINUSE:
        return "it is in use, by another nodemanager on this host or by somebody else"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


@dataclass(eq=False)
class ProbeServer:
    """A part that serves routes on one address, as soon as that can be had.

    Any user of a machine can take a port before us. That costs us what we serve there, and never the process;
    probes meanwhile get the answers of the other program.
    """

    name: str
    address: ListenAddress
    routes: Routes
    limits: tiny_http.HttpLimits = field(default_factory=tiny_http.HttpLimits)
    retry: Backoff = RETRY
    on_change: Callable[[], None] = lambda: None
    """Called when `fault` has changed."""
    bound: list[ListenAddress] = field(default_factory=list, init=False)
    """Where it really listens, once it does: port 0 has become a number."""
    fault: str = field(default="", init=False)
    """Why it does not listen; empty when it does, and before it tried."""
    _tried: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def ready(self) -> None:
        """Wait until it listens, or is known to have to wait for that: nothing else has to."""
        await self._tried.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        connections = tiny_http.Connections(self.routes, self.limits)
        server = await self._listening(connections)
        try:
            self.bound = [ListenAddress(*socket.getsockname()[:2]) for socket in server.sockets]
            self._tried.set()
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            await connections.close()

    async def _listening(self, connections: tiny_http.Connections) -> asyncio.Server:
        failures = 0
        while True:
            try:
                server = await self._listen(connections)
            except OSError as error:
                failures += 1
                self._say(
                    f"cannot listen on {self.address} for {self.name}: {_why(error)}; "
                    "free that address or choose another bind address ('0' for none)"
                )
            else:
                self._say("")
                return server
            self._tried.set()
            await asyncio.sleep(self.retry.delay(failures))

    async def _listen(self, connections: tiny_http.Connections) -> asyncio.Server:
        limit = self.limits.header_bytes
        server = await asyncio.start_server(
            connections.accept, *self.address, limit=limit, start_serving=False
        )  # fmt: skip
        try:
            # Fails for an address on which another program listens since we have had it.
            await server.start_serving()
        except BaseException:
            server.close()
            raise
        return server

    def _say(self, fault: str) -> None:
        if fault == self.fault:
            return
        if fault:
            log.warning("%s; until then others may answer there in our place", fault)
        else:
            log.info("listening on %s for %s", self.address, self.name)
        self.fault = fault
        self.on_change()


def _render(registry: metrics_.Registry) -> Reply:
    # "replace": a label value that is not valid Unicode must not cost us the scrape.
    return Reply(HTTPStatus.OK, registry.render().encode("utf-8", "replace"), metrics_.CONTENT_TYPE)


def _single(name: str, check: Check) -> Reply:
    reason = _ask(name, check)
    if reason is None:
        return Reply(HTTPStatus.OK, b"ok")
    return Reply(HTTPStatus.INTERNAL_SERVER_ERROR, f"{name} failed: {reason}\n".encode("utf-8", "replace"))


def _summary(surface: str, checks: Checks, query: Mapping[str, list[str]]) -> Reply:
    """Run all checks; the details are shown on request, and always when one fails."""
    excluded = set(query.get("exclude", ()))
    lines, failed = [], False
    for name in sorted(checks) or ["ping"]:
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            continue
        reason = _ask(name, checks[name]) if name in checks else None
        failed = failed or reason is not None
        lines.append(f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}")
    if not failed and "verbose" not in query:
        return Reply(HTTPStatus.OK, b"ok")
    status = HTTPStatus.INTERNAL_SERVER_ERROR if failed else HTTPStatus.OK
    lines.append(f"{surface} check {'failed' if failed else 'passed'}\n")
    return Reply(status, "\n".join(lines).encode("utf-8", "replace"))


def _ask(name: str, check: Check) -> str | None:
    """Run a check; one that raises has failed."""
    try:
        reason = check()
    except Exception:
        log.exception("the check %s is broken", name)
        return "the check itself failed, see the log"
    return None if reason is None else shorten(" ".join(reason.split()), MAX_REASON) or "no reason given"
