"""Refusals of authentication and authorisation, in Kubernetes' own words."""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.kube import errors
from nodemanager.kube.errors import Cause, StatusDetails
from nodemanager.kube.go.text import quote
from nodemanager.kube.rbac.identity import Attributes, User

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def unauthorized() -> errors.Unauthorized:
    """The sender of the request is unknown. The reason is only in the log."""
    return errors.Unauthorized("Unauthorized")


def may_not(user: User, asked: Attributes, reason: str = "") -> errors.Forbidden:
    """The user has no permission for that."""
    why = _sentence(user, asked).translate(_HTML) + (f": {reason}" if reason else "")
    return forbidden(asked.group, asked.resource, asked.name, why)


def _sentence(user: User, asked: Attributes) -> str:
    who = f"User {quote(user.name)} cannot {asked.verb}"
    if asked.about_path:
        return f"{who} path {quote(asked.path)}"
    where = f"in the namespace {quote(asked.namespace)}" if asked.namespace else "at the cluster scope"
    return f"{who} resource {quote(asked.full_resource)} in API group {quote(asked.group)} {where}"


def forbidden(group: str, resource: str, name: str, why: str) -> errors.Forbidden:
    """Something about a resource is forbidden."""
    title = f"{resource}.{group}" if group and resource else resource
    if name:
        title = f"{title} {quote(name)}"
    text = f"{title} is forbidden: {why}" if title else f"forbidden: {why}"
    return errors.Forbidden(text, details=StatusDetails(name=name, group=group, kind=resource))


def not_found(group: str, resource: str, name: str) -> errors.NotFound:
    """There is no such object."""
    title = f"{resource}.{group}" if group else resource
    details = StatusDetails(name=name, group=group, kind=resource)
    return errors.NotFound(f"{title} {quote(name)} not found", details=details)


def conflict(group: str, kind: str, name: str, why: str) -> errors.Conflict:
    """The object that is there is not the one that the request means."""
    title = f"{kind}.{group}" if group else kind
    details = StatusDetails(name=name, group=group, kind=kind)
    return errors.Conflict(f"Operation cannot be fulfilled on {title} {quote(name)}: {why}", details=details)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> errors.Invalid:
    """Fields of a request are refused."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = StatusDetails(name=name, group=group, kind=kind, causes=list(causes))
    return errors.Invalid(f"{kind}.{group} {quote(name)} is invalid: {joined}", details=details)
