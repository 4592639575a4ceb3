"""What the status tells of resources that nobody declares any more: how many, and the first few of them."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.api.common.orphans import MAX_NAMED, MAX_REASON, MAX_SETS, Orphan, Orphans, Pruning
from nodemanager.kube.wording import shorten
from nodemanager.plan.ownership import Owned
from nodemanager.plan.resources import ResourceId


def orphans(owned: Mapping[ResourceId, Owned]) -> Orphans | None:
    """Return what is left behind of all that there is a record of; None = nothing."""
    left = sorted((str(one), entry) for one, entry in owned.items() if entry.left)
    if not left:
        return None
    waiting: dict[str, list[Owned]] = {}
    for _, entry in left:
        for name in entry.sets if entry.waits else ():
            waiting.setdefault(name, []).append(entry)
    return Orphans(
        count=len(left),
        pruning=[
            Pruning(configset=name, resources=len(found), message=shorten(found[0].left, MAX_REASON))
            for name, found in sorted(waiting.items())[:MAX_SETS]
        ],
        resources=[
            Orphan(resource=one, configset=entry.sets[0] if entry.sets else "",
                   message=shorten(entry.left, MAX_REASON))
            for one, entry in left[:MAX_NAMED]
        ],
    )  # fmt: skip
