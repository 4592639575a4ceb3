"""Requests that the server makes to itself: no HTTP, no gate, the same checks as anybody's."""

from __future__ import annotations

from nodemanager.api.identity import MASTERS, User
from nodemanager.api.objects import Untyped
from nodemanager.server import write
from nodemanager.server.hub import Call, Hub
from nodemanager.server.negotiation import Form
from nodemanager.server.options import WriteOptions
from nodemanager.server.resources import ServedKind
from nodemanager.server.routing import RequestInfo
from nodemanager.store.base import Record

OURSELVES = User("system:apiserver", (MASTERS,))
MANAGER = "nodemanager"


def own_call(verb: str, kind: ServedKind, obj: Untyped, subresource: str = "") -> Call:
    """Return a request of ours about an object."""
    meta = obj["metadata"]
    info = RequestInfo(
        verb, "", kind.group, kind.version, meta.get("namespace", ""), kind.plural, meta["name"], subresource
    )
    return Call(info, kind, {}, OURSELVES, Form(), user_agent=MANAGER)


async def save_status(hub: Hub, kind: ServedKind, record: Record, obj: Untyped) -> None:
    """Write the status of an object; Mismatch says that somebody else was faster."""
    call = own_call("update", kind, obj, "status")
    await write.save(hub, call, record, obj, WriteOptions(False, "Ignore", MANAGER), ())
