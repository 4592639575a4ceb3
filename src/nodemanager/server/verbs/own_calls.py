"""Requests that the server makes to itself: no HTTP, no gate, the same checks as anybody's."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.kube.objects import Untyped
from nodemanager.server.hub import Call, Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import internal, write
from nodemanager.server.verbs.options import WriteOptions
from nodemanager.store.base import Record

OURSELVES = internal.SELF
MANAGER = "nodemanager"


def own_call(verb: str, kind: ServedKind, obj: Untyped, subresource: str = "") -> Call:
    """Return a request of ours about an object."""
    meta = obj["metadata"]
    call = internal.call(verb, kind, meta.get("namespace", ""), meta["name"])
    return replace(call, info=replace(call.info, subresource=subresource), user_agent=MANAGER)


async def save_status(hub: Hub, kind: ServedKind, record: Record, obj: Untyped) -> None:
    """Write the status of an object; Mismatch says that somebody else was faster."""
    call = own_call("update", kind, obj, "status")
    await write.save(hub, call, record, obj, WriteOptions(False, "Ignore", MANAGER), ())
