"""Whether the API answers, and whether it still accepts us: judged by the results of our own requests.

    there     it answers
    offline   it does not answer, or only with its own errors (5xx): the host goes on with what it knows
    refused   it does not know us any more (401), or denies us our own ManagedNode (403)

A host that is refused goes on, too, but uses the Secrets that it knows only for a while. Such times are
counted by clocks that nobody sets; what passes while the host is off is counted if its clock says so,
so that neither a jump of the clock nor an empty battery makes much of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager.client.http.transport import Request, Response, Transport
from nodemanager.host.state.vault import Vault, VaultError
from nodemanager.kube import errors, times
from nodemanager.kube.errors import UNREADABLE
from nodemanager.kube.objects import Struct

log = logging.getLogger(__name__)
NAME: Final = "contact"
GRACE: Final = 72 * 3600.0
PATIENCE: Final = 0.5
"""How long an API has to answer at the start, before a host with enough memory goes on without it."""
RECORD_SECONDS: Final = 600.0
"""How often the time spent is recorded."""
SURE_SECONDS: Final = 5.0
"""After so many seconds refusals count: an expired token is often renewed with the next request."""
SANE: Final = 1_704_067_200.0
"""The beginning of 2024: a clock before that was never set."""
LET_IN: Final = (
    "to let this host in again: nodemanager rbac and nodemanager token where you administer the API, then "
    "nodemanager bootstrap here"
)


class _Spent(Struct):
    """A time that goes on across restarts."""

    since: float
    """When it began, by the wall clock: for people."""
    spent: float = 0.0
    seen: float = 0.0
    """When `spent` was recorded, by the wall clock."""


class _Record(Struct):
    refused: _Spent | None = None
    away: _Spent | None = None


@dataclass(frozen=True, slots=True)
class SecretLimits:
    """For how many seconds known Secrets are used; 0 = for ever."""

    grace: float = GRACE
    """After the API has refused us."""
    max_age: float = 0.0
    """After the last answer of the API."""


@dataclass(frozen=True, slots=True)
class UnixClocks:
    """The clocks; the wall clock is in seconds of Unix time."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic

    def on_the_wall(self, moment: float) -> float:
        """Convert a moment of the steady clock to the wall clock, as that is set now.

        So what happened ten seconds ago did so whatever the clock on the wall was set to since.
        """
        return self.wall() + moment - self.steady()


class ApiReachability:
    """Whether the API answers and accepts us; a part that says when Secrets must not be used any more."""

    name = "contact with the API"

    def __init__(
        self,
        vault: Vault,
        limits: SecretLimits,
        clocks: UnixClocks | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._vault = vault
        self._limits = limits
        self._clocks = clocks or UnixClocks()
        self._own: Collection[tuple[str, str]] = ()
        self._listeners: list[Callable[[], None]] = []
        self._on_change = changed
        """Called when the API begins or stops to answer, or to accept us."""
        self._heard: float | None = None
        """When the API last answered and accepted us, by the monotonic clock; None = not since our start."""
        self._changed = asyncio.Event()
        self._answered = asyncio.Event()
        self.why = ""
        """Why we are offline or refused, in words."""
        self.unasked = False
        """Whether we are offline because we have no credential to show, and so send no requests."""
        self._offline_since: float | None = None
        """By the steady clock."""
        self._began = self._clocks.steady()
        self._expired = False
        self._doubt: float | None = None
        """Since when every answer was a refusal, by the steady clock."""
        self._record = self._resumed()

    # What is known

    @property
    def offline(self) -> bool:
        """Whether the API is not to be asked for anything now: it does not answer, or refuses us."""
        return self._offline_since is not None or self.refused or self._doubt is not None

    @property
    def refused(self) -> bool:
        """Whether the API has said that it does not want us."""
        return self._record.refused is not None

    def since(self) -> float | None:
        """Return since when we are offline or refused, by the clock on the wall."""
        if self._record.refused:
            return self._record.refused.since
        return None if self._offline_since is None else self._clocks.on_the_wall(self._offline_since)

    def heard(self) -> float | None:
        """Return when the API last answered and knew us, by the clock on the wall; None = never yet."""
        return None if self._heard is None else self._clocks.on_the_wall(self._heard)

    def not_ready(self) -> str | None:
        """Return since when, and why, the API is away or refuses us; None = neither. A check for /readyz."""
        since = self.since()
        if since is None:
            return None
        return f"{'refused' if self.refused else 'alone'} since {times.rfc3339_unix(since)}: {self.why}"

    def withheld(self) -> str:
        """Return why Secrets that are known may not be used any more; empty = they may."""
        for spent, limit, what in (
            (self._record.refused, self._limits.grace, "the API has refused this host"),
            (self._record.away, self._limits.max_age, "the API was not there"),
        ):
            if spent is not None and limit > 0 and self._spent(spent) >= limit:
                since, lasting = times.rfc3339_unix(spent.since), times.human_duration(limit)
                return f"{what} since {since}, and what was known is used for {lasting} only"
        return ""

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a listener when the API is there again, or Secrets are not to be used any more."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Give back what is held open."""
        self._vault.close()

    # What happens

    def watching(self, transport: Transport, own: Collection[tuple[str, str]]) -> Transport:
        """Return a transport that tells us what becomes of its requests.

        `own` are methods and paths that every host with a valid registration may use: to be forbidden
        one of them means that the host is not wanted any more.
        """
        self._own = own
        return _Watching(transport, self)

    def reached(self) -> None:
        """Take note that the API answers, and knows us."""
        self._answered.set()
        doubted, self._doubt = self._doubt is not None, None
        first, self._heard = self._heard is None, self._clocks.steady()
        if first:
            self._on_change()
        if self._offline_since is None and self._record == _Record():
            if doubted:
                self._tell()
            return
        log.info("the API is there again%s", f", after: {self.why}" if self.why else "")
        self.why, self._offline_since, self.unasked = "", None, False
        self._expired = False
        if self._record != _Record():
            self._record = _Record()
            self._save()
        self._tell()

    def failed(self, why: str) -> None:
        """Take note that the API does not answer."""
        self._answered.set()
        self.unasked = False
        if self._offline_since is not None or self.refused:
            return
        self._offline_since, self.why = self._clocks.steady(), why
        log.warning("alone: %s; this host goes on with what it knows", why)
        if self._limits.max_age > 0 and self._record.away is None:
            self._began, now = self._offline_since, self._clocks.wall()
            self._record = msgspec.structs.replace(self._record, away=_Spent(since=now, seen=now))
            self._save()
        self._changed.set()
        self._on_change()

    def not_asked(self, why: str) -> None:
        """Take note that we have no credential to show to the API, or not one of ours."""
        if self.unasked and why == self.why:
            return
        self.failed(why)
        self.why, self.unasked = why, True
        self._on_change()

    def try_again(self) -> None:
        """Have everybody ask the API again: there is another credential."""
        self._tell()

    def was_refused(self, why: str) -> None:
        """Take note that the API does not want us any more, if it goes on saying so."""
        self._answered.set()
        now = self._clocks.steady()
        if self._doubt is None:
            self._doubt = now
            self._changed.set()
        if self.refused or now < self._doubt + SURE_SECONDS:
            return
        self.why, self._offline_since = f"{why}; {LET_IN}", None
        now = self._clocks.wall()
        self._spend()
        self._record = msgspec.structs.replace(self._record, refused=_Spent(since=now, seen=now))
        lasting = times.human_duration(self._limits.grace) if self._limits.grace else "ever"
        log.error(
            "the API refuses this host: %s. What it knows stays in force, Secrets for %s", self.why, lasting
        )
        self._save()
        self._changed.set()
        self._on_change()

    def saw(self, request: Request, status: int) -> None:
        """Take note of an answer."""
        if status == 401:
            self.was_refused("it does not accept our credentials (401)")
        elif status == 403 and (request.method, request.target.partition("?")[0]) in self._own:
            self.was_refused("it keeps us from our own ManagedNode or Lease (403)")
        elif status >= 500:
            self.failed(f"the API answers {status}")
        elif not (status == 403 and (self.refused or self._doubt is not None)):
            self.reached()

    async def first_answer(self) -> None:
        """Wait until the API has answered or failed for the first time, but not for long."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._answered.wait()
        except TimeoutError:
            self.failed(f"the API did not answer within {PATIENCE:g} s")

    async def run(self) -> None:
        """Count the time, and say when Secrets are not to be used any more, until cancelled."""
        while True:
            self._changed.clear()
            if self.withheld() and not self._expired:
                self._expired = True
                log.error("Secrets are not used any more: %s", self.withheld())
                self._tell()
            counting = self._record != _Record() and not self._expired
            doubting = self._doubt is not None and not self.refused
            pause = SURE_SECONDS if doubting else self._next() if counting else None
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                if doubting:
                    self._tell()  # the waiting parts ask the API again, and then we know
                if counting:
                    self._spend()
                    self._save()

    # Counting

    def _next(self) -> float:
        left = [
            limit - self._spent(spent)
            for spent, limit in (
                (self._record.refused, self._limits.grace),
                (self._record.away, self._limits.max_age),
            )
            if spent is not None and limit > 0
        ]
        return max(0.0, min([RECORD_SECONDS, *left]))

    def _spent(self, what: _Spent) -> float:
        return what.spent + self._clocks.steady() - self._began

    def _spend(self) -> None:
        """Add what has passed to what is recorded."""
        wall, record = self._clocks.wall(), self._record

        def later(what: _Spent | None) -> _Spent | None:
            if what is None:
                return None
            return msgspec.structs.replace(what, spent=self._spent(what), seen=wall)

        self._record = _Record(refused=later(record.refused), away=later(record.away))
        self._began = self._clocks.steady()

    def _resumed(self) -> _Record:
        """Return what the last process recorded, with the time since then, as far as that can be told."""
        try:
            data = self._vault.load(NAME)
            record = msgspec.json.decode(data, type=_Record) if data else _Record()
        except (VaultError, *UNREADABLE) as error:
            log.warning("%s; it is begun anew", error)
            self._vault.set_aside(NAME)
            return _Record()
        wall = self._clocks.wall()

        def later(what: _Spent | None) -> _Spent | None:
            if what is None:
                return None
            off = max(0.0, wall - what.seen) if what.seen > SANE else 0.0
            return msgspec.structs.replace(what, spent=what.spent + off, seen=wall)

        if record.refused:
            self.why = "it did so before the agent was started"
        return _Record(refused=later(record.refused), away=later(record.away))

    def _save(self) -> None:
        try:
            if self._record == _Record():
                self._vault.remove(NAME)
            else:
                self._vault.save(NAME, msgspec.json.encode(self._record))
        except VaultError as error:
            log.warning("%s", error)

    def _tell(self) -> None:
        self._changed.set()
        self._on_change()
        for listener in self._listeners:
            listener()


class _Watching:
    """A transport that tells what becomes of its requests."""

    def __init__(self, inner: Transport, reachability: ApiReachability) -> None:
        self._inner = inner
        self._reachability = reachability

    async def send(self, request: Request) -> Response:
        try:
            response = await self._inner.send(request)
        except errors.TransportError as error:
            self._reachability.failed(str(error))
            raise
        except errors.ConfigError as error:
            self._reachability.not_asked(str(error))
            raise
        self._reachability.saw(request, response.status)
        return response

    async def reauthenticate(self) -> bool:
        return await self._inner.reauthenticate()

    async def close(self) -> None:
        await self._inner.close()
