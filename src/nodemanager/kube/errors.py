"""One tree for everything that can go wrong between us and a Kubernetes API.

    KubeError
    +-- ConfigError             the kubeconfig, a credential or a flag cannot be used
    +-- TransportError          no complete answer arrived
    |   +-- Unreachable         refused, reset, name not found, closed half-way
    |   +-- TimedOut            nothing within the time allowed
    |   +-- TlsError            the peer is not who the kubeconfig says
    |   +-- ProtocolError       an answer that is not HTTP or not JSON
    +-- TooLong                 a list of more objects than were wanted
    +-- StatusError             the server answered, and said no
        +-- BadRequest 400      +-- Conflict 409          +-- TooManyRequests 429
        +-- Unauthorized 401    +-- AlreadyExists 409     +-- InternalError 500
        +-- Forbidden 403       +-- Gone 410              +-- ServiceUnavailable 503
        +-- NotFound 404        +-- TooLarge 413          +-- ServerTimeout 504
        +-- NotAllowed 405      +-- UnsupportedType 415
        +-- NotAcceptable 406   +-- Invalid 422

`StatusError` is what the embedded server raises and what the client raises: the same
object crosses the wire as a `Status`. Messages say "cannot X: why".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec

from nodemanager.kube.objects import Struct

MAX_FOREIGN_TEXT = 1024
"""How much of a foreign text we repeat in a message."""
MAX_RETRY_AFTER = 300
"""How many seconds we let a server tell us to stay away; it may be a proxy that knows no better."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding hostile JSON can raise."""


class KubeError(Exception):
    """Root of the tree."""


class ConfigError(KubeError):
    """Something the user wrote (kubeconfig, flag, credential file) cannot be used."""


class TransportError(KubeError):
    """No complete answer arrived; whether the request took effect is unknown."""


class Unreachable(TransportError):
    """The connection was refused, reset or closed half-way."""


class TimedOut(TransportError):
    """Nothing arrived within the time allowed."""


class TlsError(TransportError):
    """The TLS handshake failed: wrong CA, wrong name, or an expired certificate."""


class ProtocolError(TransportError):
    """What arrived is not HTTP, or not the JSON it claims to be."""


class TooLong(KubeError):
    """A list has more objects than anybody wants to read of it."""


class Cause(Struct):
    """One field that was refused, and why."""

    field: str = ""
    reason: str = ""
    message: str = ""


class StatusDetails(Struct):
    """What a `Status` is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[Cause] = []
    retry_after_seconds: int = 0


class Status(Struct):
    """The body of every refusal, `metav1.Status`."""

    status: str = "Failure"
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class StatusError(KubeError):
    """The server answered, and said no."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "Unknown"

    def __init__(self, message: str, *, details: StatusDetails | None = None, status: Status | None = None):
        super().__init__(message)
        self.message = message
        self.details = details or StatusDetails()
        self.status = status or Status(message=message, reason=self.reason, details=details, code=self.code)
        self.warnings: tuple[str, ...] = ()
        """What a server of ours tells besides the refusal."""

    def during(self, doing: str) -> Self:
        """Return the same refusal with what we were about to do in front: "cannot list x: ..."."""
        named = type(self)(self.message, details=self.details, status=self.status)
        named.args = (f"cannot {doing}: {self.message}{self._hint(doing)}",)
        return named

    def _hint(self, _doing: str) -> str:
        return ""

    @property
    def causes(self) -> list[Cause]:
        """The refused fields, if the server named them."""
        return self.details.causes

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asked us to wait, if it did."""
        seconds = self.details.retry_after_seconds
        return float(min(seconds, MAX_RETRY_AFTER)) if seconds > 0 else None


class BadRequest(StatusError):
    """400: the request itself makes no sense to the server."""

    code, reason = 400, "BadRequest"


class Unauthorized(StatusError):
    """401: the server does not know who we are."""

    code, reason = 401, "Unauthorized"


class Forbidden(StatusError):
    """403: the server knows us, and RBAC or admission says no."""

    code, reason = 403, "Forbidden"

    def _hint(self, _doing: str) -> str:
        # RBAC's own text names verb and resource; what a proxy says often does not. Policies ask for no verb.
        verb, _, rest = _doing.partition(" ")
        if "cannot " in self.message or "denied request" in self.message:
            return ""
        return f" (the verb {verb!r} on {rest.split(' ')[0]!r} is missing)"


class NotFound(StatusError):
    """404: no such object, or no such resource type."""

    code, reason = 404, "NotFound"


class NotAllowed(StatusError):
    """405: the resource has no such verb."""

    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(StatusError):
    """406: the server cannot answer in that format."""

    code, reason = 406, "NotAcceptable"


class Conflict(StatusError):
    """409: another client wrote first, or owns the field."""

    code, reason = 409, "Conflict"


class AlreadyExists(StatusError):
    """409: an object of that name is there already."""

    code, reason = 409, "AlreadyExists"


class Gone(StatusError):
    """410: that revision has been compacted away; list again."""

    code, reason = 410, "Expired"


class TooLarge(StatusError):
    """413: the body is larger than the server takes."""

    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedType(StatusError):
    """415: the server does not take this content or patch type."""

    code, reason = 415, "UnsupportedMediaType"


class Invalid(StatusError):
    """422: a field was refused; `causes` names each one."""

    code, reason = 422, "Invalid"


class TooManyRequests(StatusError):
    """429: slow down, or (eviction) a disruption budget says not now."""

    code, reason = 429, "TooManyRequests"


class InternalError(StatusError):
    """500: the server failed."""

    code, reason = 500, "InternalError"


def unforeseen(message: str) -> InternalError:
    """Return a 500 without a reason, as Kubernetes has it for errors that it did not foresee."""
    return InternalError(message, status=Status(message=message, code=500))


class ServiceUnavailable(StatusError):
    """503: the server is starting, stopping or overloaded."""

    code, reason = 503, "ServiceUnavailable"


class ServerTimeout(StatusError):
    """504: the server gave up waiting for itself."""

    code, reason = 504, "Timeout"


_ALL: list[type[StatusError]] = [
    BadRequest, Unauthorized, Forbidden, NotFound, NotAllowed, NotAcceptable, Conflict, AlreadyExists, Gone,
    TooLarge, UnsupportedType, Invalid, TooManyRequests, InternalError, ServiceUnavailable, ServerTimeout,
]  # fmt: skip
_BY_REASON = {cls.reason: cls for cls in _ALL} | {"Gone": Gone, "ServerTimeout": ServerTimeout}
_BY_CODE = {cls.code: cls for cls in reversed(_ALL)}  # reversed: 409 alone means Conflict


def error_class(code: int, reason: str = "") -> type[StatusError]:
    """Return the exception for a reason or, where the reason is unknown, for an HTTP code."""
    found = _BY_REASON.get(reason) or _BY_CODE.get(code)
    if found is None:
        found = InternalError if code >= 500 else BadRequest if code >= 400 else StatusError
    return found


def from_status(status: Status) -> StatusError:
    """Return the exception a decoded `Status` stands for."""
    message = status.message or f"the server answered {status.code} {status.reason}".strip()
    return error_class(status.code, status.reason)(message, details=status.details, status=status)


def from_response(code: int, body: bytes, headers: Mapping[str, str]) -> StatusError:
    """Return the exception for a refusing HTTP response, whether or not its body is a `Status`."""
    status = _decode_status(body)
    if status is None or not status.code:
        text = body[:MAX_FOREIGN_TEXT].decode("utf-8", "replace").strip()
        status = Status(message=text or f"the server answered {code} without a reason", code=code)
    retry_after = headers.get("retry-after", "")
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10:
        details = status.details or StatusDetails()
        status = msgspec.structs.replace(
            status, details=msgspec.structs.replace(details, retry_after_seconds=int(retry_after))
        )
    return from_status(status)


def _decode_status(body: bytes) -> Status | None:
    try:
        decoded: Any = msgspec.json.decode(body, type=Status)
    except UNREADABLE:
        return None
    return decoded if isinstance(decoded, Status) else None
