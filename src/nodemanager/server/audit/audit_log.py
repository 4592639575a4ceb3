"""From requests that have ended to lines of the audit log: `audit.k8s.io/v1 Event`, one per line."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from nodemanager.kube import errors, times
from nodemanager.kube.rbac.identity import User
from nodemanager.server.audit.log_file import LogFile, LogLimits
from nodemanager.server.audit.policy import API_VERSION, NAMES, WRITTEN_STAGE, AuditLevel, AuditPolicy
from nodemanager.server.http import bodies
from nodemanager.server.http.observation import Observation
from nodemanager.server.http.routing import RequestInfo

log = logging.getLogger("nodemanager.server.audit")
SECRET: Final = frozenset({("", "secrets", ""), ("", "serviceaccounts", "token")})
"""Kinds whose content is never logged, whatever a policy says; reviews of tokens are the third."""
MAX_TEXT: Final = 2048
"""Characters of anything that a client chose."""
_NOBODY: Final = User("")
_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json",
                   "application/strategic-merge-patch+json")  # fmt: skip


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Where the audit log is, how much of it is kept, and what it tells."""

    path: Path
    policy: AuditPolicy
    limits: LogLimits = field(default_factory=LogLimits)


class _Named(msgspec.Struct):
    name: str = ""


class _Outcome(msgspec.Struct, rename="camel"):
    """What an answer says of itself: the name of an object, or why something was refused."""

    metadata: _Named = msgspec.field(default_factory=_Named)
    status: Any = None
    reason: Any = None
    message: Any = None


class AuditLog:
    """Writes the records that a policy wants."""

    def __init__(self, policy: AuditPolicy, file: LogFile) -> None:
        self._policy = policy
        self._file = file

    def begun(self, seen: Observation) -> None:
        """Do nothing: a request is logged when it has ended."""

    def ended(self, seen: Observation) -> None:
        """Write the line of a request, if it is to have one."""
        if seen.info is None:
            return  # not even a path that can be read
        level = self._policy.level(seen.info, actor(seen.who))
        if level is AuditLevel.NONE:
            return
        try:
            line = msgspec.json.encode(event(seen, seen.info, level, datetime.now(UTC)))
        except (TypeError, ValueError, RecursionError):
            log.exception("cannot tell of a request in the audit log")
            return
        self._file.append(line + b"\n")


def actor(user: User | None) -> User:
    """Return the sender of a request, with the user as whom they acted."""
    if user is None:
        return _NOBODY
    return user.impersonator or user


def event(seen: Observation, info: RequestInfo, level: AuditLevel, ended: datetime) -> dict[str, Any]:
    """Return the record of a request."""
    is_secret = (info.group, info.resource, info.subresource) in SECRET or info.resource == "tokenreviews"
    level = min(level, AuditLevel.METADATA) if is_secret else level
    outcome = _outcome(seen)
    found: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": API_VERSION,
        "level": NAMES[level],
        "auditID": str(uuid.uuid4()),
        "stage": WRITTEN_STAGE,
        "requestURI": _cut(seen.uri),
        "verb": info.verb,
        "user": actor(seen.who).info(),
    }
    if seen.who is not None and seen.who.impersonator is not None:
        found["impersonatedUser"] = seen.who.info()
    found["sourceIPs"] = [seen.remote.rpartition(":")[0].strip("[]")]
    found["userAgent"] = _cut(seen.user_agent)
    if info.is_resource:
        found["objectRef"] = _reference(info, info.name or (outcome.metadata.name if seen.code < 400 else ""))
    found["responseStatus"] = _status(seen.code, outcome, is_secret=is_secret)
    if level >= AuditLevel.REQUEST and (sent := _object(seen.sent, seen.content_type)) is not None:
        found["requestObject"] = sent
    if level >= AuditLevel.REQUEST_RESPONSE and (answer := _object(seen.answer, "")) is not None:
        found["responseObject"] = answer
    found["requestReceivedTimestamp"] = times.rfc3339_micro(ended - timedelta(seconds=seen.seconds))
    found["stageTimestamp"] = times.rfc3339_micro(ended)
    decision = "forbid" if seen.code == 403 else "allow"
    found["annotations"] = {"authorization.k8s.io/decision": decision} if seen.who is not None else {}
    return found


def _reference(info: RequestInfo, name: str) -> dict[str, str]:
    parts = {
        "resource": info.resource, "namespace": info.namespace, "name": _cut(name), "apiGroup": info.group,
        "apiVersion": info.version, "subresource": info.subresource,
    }  # fmt: skip
    return {key: value for key, value in parts.items() if value}


def _status(code: int, outcome: _Outcome, *, is_secret: bool) -> dict[str, Any]:
    if code < 400:
        return {"metadata": {}, "code": code}
    found = {"metadata": {}, "status": outcome.status, "reason": outcome.reason, "code": code}
    if not is_secret:  # it may quote what was wrong
        found["message"] = _cut(outcome.message) if outcome.message else None
    return {key: value for key, value in found.items() if value is not None}


def _outcome(seen: Observation) -> _Outcome:
    if seen.code < 400 and seen.info is not None and (seen.info.name or seen.info.verb != "create"):
        return _Outcome()  # its name is known from the path
    try:
        return msgspec.json.decode(seen.answer or seen.sent, type=_Outcome)
    except errors.UNREADABLE:
        return _Outcome()


def _object(body: bytes, content_type: str) -> Any:
    """Return the object in a body; None if there is none, or it cannot be read."""
    media = "application/json" if bodies.media_type(content_type) in _PATCHES else content_type
    try:
        return bodies.decode(body, media) if body else None
    except (ValueError, errors.StatusError):
        return None


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
