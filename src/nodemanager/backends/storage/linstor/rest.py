"""Requests to a LINSTOR controller, and what their answers mean.

This module repeats no read, and a change is never repeated: whether one took effect is unknown when no answer
came (`Undecided`), since the controller waits for satellites and may have acted long ago. Redirects are
not followed: a controller with TLS redirects all clients from 3370 to 3371, and the profile must name that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from nodemanager.backends.errors import WORDS, Denied, Garbled, Undecided, Unreachable, Unusable
from nodemanager.backends.storage.linstor import codes
from nodemanager.backends.storage.linstor.codes import ReturnCode
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http.transport import HttpTransport, Request, read_all
from nodemanager.fleet.edge.decoding import printable
from nodemanager.kube import errors

READ_SECONDS: Final = 10.0
CHANGE_SECONDS: Final = 120.0
"""Changes wait for satellites, which may be slow."""
MAX_BODY: Final = 16 * 1024 * 1024
MAX_OBJECTS: Final = 150_000
MAX_VALUES: Final = 1_000_000
"""A body of nothing but `{}` would grow a hundredfold when it is decoded."""
_CHANGED: Final = ("POST", "PUT", "DELETE", "PATCH")
T = TypeVar("T")


class ApiCallRc(msgspec.Struct, frozen=True):
    """One line of an answer."""

    ret_code: int
    message: str = ""
    cause: str | None = None
    correction: str | None = None
    error_report_ids: list[str] | None = None

    @property
    def code(self) -> ReturnCode:
        """The code, taken apart."""
        return codes.parse(self.ret_code)

    @property
    def words(self) -> str:
        """What it says, with what to do."""
        return ": ".join(part for part in (self.message, self.cause, self.correction) if part)


class LinstorRest:
    """One controller."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        read_seconds: float = READ_SECONDS,
        change_seconds: float = CHANGE_SECONDS,
    ) -> None:
        self._server = config.server
        try:
            self._transport = HttpTransport(config)
        except errors.ConfigError as error:
            raise Unusable(f"cannot ask LINSTOR: {error}") from error
        self._read_seconds, self._change_seconds = read_seconds, change_seconds

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def read(self, kind: type[T], path: str, doing: str) -> T:
        """Return what is at a path."""
        status, body = await self._ask("GET", path, None, doing)
        if status != 200:
            _raise(doing, status, _lines(body), changing=False)
        try:
            return msgspec.json.decode(body, type=kind)
        except errors.UNREADABLE as error:
            if any(one.code.is_error for one in _lines(body)):  # it says no, whatever its status says
                _raise(doing, status, _lines(body), changing=False)
            raise Garbled(f"cannot {doing}: the answer of {self._server} is not what LINSTOR says") from error

    async def change(self, method: str, path: str, body: Any, doing: str) -> list[ApiCallRc]:
        """Ask for a change; returns what was said of it, if none of that is an error."""
        status, answer = await self._ask(method, path, body, doing)
        lines = _lines(answer)
        if not lines or any(one.code.is_error for one in lines):
            _raise(doing, status, lines, changing=True)
        return lines

    async def _ask(self, method: str, path: str, body: Any, doing: str) -> tuple[int, bytes]:
        changing = method in _CHANGED
        seconds = self._change_seconds if changing else self._read_seconds
        data = b"" if body is None else msgspec.json.encode(body)
        headers = {"accept": "application/json"} | ({"content-type": "application/json"} if data else {})
        sent = False

        def leaves() -> None:
            nonlocal sent
            sent = True

        request = Request(method, path, data, headers, leaves)
        try:
            async with asyncio.timeout(seconds):
                response = await self._transport.send(request)
                try:
                    return response.status, _sparse(await read_all(response, MAX_BODY))
                finally:
                    await response.close()
        except TimeoutError as error:
            raise _silence(doing, f"no answer within {seconds:g} s", sent and changing) from error
        except errors.ConfigError as error:
            raise Denied(f"cannot {doing}: {printable(str(error), WORDS)}") from error
        except errors.TransportError as error:
            if isinstance(error, errors.ProtocolError) and not changing:
                raise Garbled(f"cannot {doing}: {printable(str(error), WORDS)}") from error
            raise _silence(doing, printable(str(error), WORDS), sent and changing) from error


def _sparse(body: bytes) -> bytes:
    """Return a body in which there is no more than in one of a site."""
    if body.count(b"{") > MAX_OBJECTS or body.count(b",") > MAX_VALUES:
        raise errors.ProtocolError("cannot read the answer: it has more in it than the storage of a site")
    return body


def segment(name: str) -> str:
    """Return a name as a part of a path: it cannot lead anywhere else."""
    return quote(name, safe="")


def warnings(lines: Iterable[ApiCallRc]) -> tuple[str, ...]:
    """Return what was warned of."""
    return tuple(printable(one.words, WORDS) for one in lines if one.code.is_warning)


def _silence(doing: str, why: str, may_have_happened: bool) -> Unreachable | Undecided:
    if may_have_happened:
        return Undecided(f"cannot tell whether it is done ({doing}): {why}; look again before going on")
    return Unreachable(f"cannot {doing}: {why}")


def _lines(body: bytes) -> list[ApiCallRc]:
    """Return the lines of an answer; none if it is not one of LINSTOR's own."""
    try:
        return msgspec.json.decode(body, type=list[ApiCallRc])
    except errors.UNREADABLE:
        return []


def _raise(doing: str, status: int, lines: list[ApiCallRc], *, changing: bool) -> None:
    """Raise what an answer means: by its first error, and by the status only where there is none."""
    first = next((one for one in lines if one.code.is_error), None)
    if first is not None:
        if codes.is_denied(first.code):
            raise Denied(f"cannot {doing}: {printable(first.words, WORDS)} [code {first.code.code}]")
        raise codes.refusal(first.code)(
            doing, first.words, code=first.code.code, reports=tuple(first.error_report_ids or ())
        )
    if status in (401, 403):
        raise Denied(f"cannot {doing}: it answers {status}; see the Secret of the client certificate")
    if 300 <= status < 400:
        raise Garbled(f"cannot {doing}: it redirects; with TLS, the address is https://...:3371")
    if changing and (status >= 500 or status < 300):
        raise Undecided(
            f"cannot tell whether it is done ({doing}): the answer ({status}) is none of LINSTOR; look again"
        )
    raise Garbled(f"cannot {doing}: the answer ({status}) is none of LINSTOR")
