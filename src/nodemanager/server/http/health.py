"""`/livez`, `/readyz` and `/healthz`: whether to restart this server, and whether it is of use.

Each check has a path of its own (`/readyz/store`), `?verbose` lists them all, and `?exclude=NAME` leaves
one out; when one fails the answer is 503. The reason may name files, so only the paths of single checks tell
it, for which a client needs an identity.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from nodemanager.kube.wording import shorten
from nodemanager.server.http import answers
from nodemanager.store.base import Store, StoreError

LOG = logging.getLogger(__name__)
SURFACES = ("healthz", "livez", "readyz")
PROBE_EVERY = 5.0
"""How long the result of a trial write counts: it costs an fsync, and every client may ask."""
PROBE_TIMEOUT = 5.0
MAX_REASON = 500

Check = Callable[[], Awaitable[str]]
"""Returns nothing when all is well, otherwise the reason."""


class StoreCheck:
    """Whether the store can write, found out by writing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked_at = -PROBE_EVERY
        self._asking: asyncio.Task[str] | None = None

    async def __call__(self) -> str:
        """Return why nothing can be written, as of a few seconds ago."""
        now = asyncio.get_running_loop().time()
        if self._asking is None or (self._asking.done() and now - self._asked_at >= PROBE_EVERY):
            self._asked_at = now
            self._asking = asyncio.create_task(self._probe(), name="trial write")
        try:
            return await asyncio.wait_for(asyncio.shield(self._asking), PROBE_TIMEOUT)
        except TimeoutError:
            return f"a trial write did not end within {PROBE_TIMEOUT:g} s"

    async def _probe(self) -> str:
        try:
            await self._store.probe()
        except StoreError as error:
            # Logged here and not for every question, so that a client that asks often cannot fill the log.
            LOG.warning("the store is not ready: %s", error)
            return str(error)
        return ""


def is_ours(path: str) -> bool:
    """Tell whether a path is one of health."""
    return path.strip("/").partition("/")[0] in SURFACES


def is_open(path: str) -> bool:
    """Tell whether everybody may ask, as in Kubernetes: for all checks together, not for a single one."""
    return path.strip("/") in SURFACES


class ServerHealth:
    """The checks of one server."""

    def __init__(self, store: Store, state: Callable[[], str]) -> None:
        """`state` returns why no requests are taken: it is starting, or stopping."""
        self._state = state
        self._checks: dict[str, Check] = {
            "ping": _ping,
            "started": self._started,
            "store": StoreCheck(store),
        }

    async def answer(self, request: web.Request, path: str) -> web.Response:
        """Answer a request for one of our paths."""
        surface, _, name = path.strip("/").partition("/")
        names = ["ping"] if surface == "livez" else sorted(self._checks)
        if name and name not in names:
            return answers.plain_text("404 page not found\n", 404)
        if name:
            return await self._single(name)
        query = request.query
        return await self._summary(surface, names, query.getall("exclude", []), verbose="verbose" in query)

    async def _started(self) -> str:
        return self._state()

    async def _single(self, name: str) -> web.Response:
        reason = await self._ask(name)
        return answers.plain_text(f"{name} failed: {reason}\n", 503) if reason else answers.plain_text("ok")

    async def _summary(
        self, surface: str, names: Sequence[str], excluded: Sequence[str], *, verbose: bool
    ) -> web.Response:
        lines, failed = [], []
        for name in names:
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = await self._ask(name)
            failed += [name] if reason else []
            lines.append(f"[-]{name} failed: reason withheld" if reason else f"[+]{name} ok")
        if not failed and not verbose:
            return answers.plain_text("ok")
        lines.append(f"{surface} check {'failed' if failed else 'passed'}\n")
        return answers.plain_text("\n".join(lines), 503 if failed else 200)

    async def _ask(self, name: str) -> str:
        return shorten(" ".join((await self._checks[name]()).split()), MAX_REASON)


async def _ping() -> str:
    return ""
