"""Requests that the server makes itself, to finish the request of a client.

They come without HTTP, authentication and authorisation; everything after that is the same as for a client.
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.kube.objects import Untyped
from nodemanager.kube.rbac.identity import User
from nodemanager.server.http.negotiation import Form
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.hub import ApiCall, Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import write
from nodemanager.server.verbs.options import WriteOptions
from nodemanager.store.base import StoreRecord

SELF = User("system:apiserver", ("system:masters",))
MANAGER = "nodemanager"


def call(verb: str, kind: ServedKind, namespace: str, name: str) -> ApiCall:
    """Return a request of the server about the object of that name."""
    info = RequestInfo(verb, "", kind.group, kind.version, namespace, kind.plural, name)
    return ApiCall(info, kind, {}, SELF, Form())


def call_about(verb: str, kind: ServedKind, obj: Untyped, subresource: str = "") -> ApiCall:
    """Return a request of the server about an object that is at hand."""
    meta = obj["metadata"]
    plain = call(verb, kind, meta.get("namespace", ""), meta["name"])
    return replace(plain, info=replace(plain.info, subresource=subresource), user_agent=MANAGER)


async def save_status(hub: Hub, kind: ServedKind, record: StoreRecord, obj: Untyped) -> None:
    """Write the status of an object; Mismatch means that another writer was faster."""
    request = call_about("update", kind, obj, "status")
    await write.save(hub, request, record, obj, WriteOptions(False, "Ignore", MANAGER))
