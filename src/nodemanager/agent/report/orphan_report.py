"""What the status shows of resources that no set declares any more: their number, and the first few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from nodemanager.api.common.orphans import MAX_NAMED, MAX_REASON, MAX_SETS, Orphan, Orphans, Pruning
from nodemanager.kube.wording import shorten
from nodemanager.plan.ownership import Owned
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.set_doubts import Owner, SetRecord

UNSEEN: Final = "waits: it was not looked at yet, as what is declared has just changed"


def orphans(owned: Mapping[ResourceId, Owned], sets: Mapping[Owner, SetRecord]) -> Orphans | None:
    """Return what is left behind of all that there is a record of; None = nothing."""
    reported = ((one, _reported(entry, sets)) for one, entry in owned.items())
    left = sorted((str(one), entry) for one, entry in reported if entry.left)
    if not left:
        return None
    waiting: dict[str, list[Owned]] = {}
    for _, entry in left:
        for name in entry.names if entry.waits else ():
            waiting.setdefault(name, []).append(entry)
    return Orphans(
        count=len(left),
        pruning=[
            Pruning(configset=name, resources=len(found), message=shorten(found[0].left, MAX_REASON))
            for name, found in sorted(waiting.items())[:MAX_SETS]
        ],
        resources=[
            Orphan(resource=one, configset=entry.names[0] if entry.sets else "",
                   message=shorten(entry.left, MAX_REASON))
            for one, entry in left[:MAX_NAMED]
        ],
    )  # fmt: skip


def _reported(entry: Owned, sets: Mapping[Owner, SetRecord]) -> Owned:
    """Return an entry; what only sets had that are for this host no longer waits until a pass looks at it."""
    if entry.left or not entry.sets or any(one not in sets or sets[one].here for one in entry.sets):
        return entry
    return msgspec.structs.replace(entry, left=UNSEEN, waits=True)
