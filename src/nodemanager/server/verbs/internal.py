"""Calls that the server makes to itself, to finish what somebody asked for."""

from __future__ import annotations

from nodemanager.kube.rbac.identity import User
from nodemanager.server.http.negotiation import Form
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.hub import Call
from nodemanager.server.kinds.resources import ServedKind

SELF = User("system:apiserver", ("system:masters",))


def call(verb: str, kind: ServedKind, namespace: str, name: str) -> Call:
    """Return a call of our own about one object."""
    info = RequestInfo(verb, "", kind.group, kind.version, namespace, kind.plural, name)
    return Call(info, kind, {}, SELF, Form())
