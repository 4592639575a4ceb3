"""What a host says about a proposal: what it would change beyond what is to be done anyway. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from nodemanager.api.maintenance.task_previews import (
    MAX_CHANGES,
    MAX_DETAILS,
    MAX_REASON,
    MAX_RESOURCE,
    PreviewedChange,
    TaskPreview,
)
from nodemanager.kube import wording
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, Noop, Step

MAX_ROOM: Final = 16 * 1024
"""Characters of one answer."""
RELEASE: Final = "release"


def steps(proposed: Sequence[Step], now: Sequence[Step]) -> list[Step]:
    """Return what is to be done because of a proposal, and not already because of what is declared now."""
    anyway: dict[ResourceId, list[Step]] = {}
    for one in now:
        anyway.setdefault(one.id, []).append(one)
    return [one for one in proposed if not isinstance(one, Noop) and one not in anyway.get(one.id, ())]


def held(desired: Desired) -> list[Step]:
    """Return the resources that are in conflict, as steps."""
    return [Blocked(id=one, sources=(), reason=why) for one, why in desired.held.items()]


def released(proposed: Desired, now: Desired) -> list[PreviewedChange]:
    """Return what would not be declared any more."""
    kept = _ids(proposed)
    return [
        PreviewedChange(
            resource=wording.flat(str(one), MAX_RESOURCE),
            verb=RELEASE,
            reason="no ConfigSet declares it then",
        )
        for one in _ids(now)
        if one not in kept
    ]


def _ids(desired: Desired) -> dict[ResourceId, None]:
    declared = (item.id for group in desired.items.values() for item in group)
    return dict.fromkeys((*declared, *desired.held))


def summary(changes: Iterable[PreviewedChange]) -> TaskPreview:
    """Return an answer that is not too long; its digest is that of all of it."""
    found = list(changes)
    kept: list[PreviewedChange] = []
    room = MAX_ROOM
    for one in found[:MAX_CHANGES]:
        short = msgspec.structs.replace(
            one,
            resource=wording.shorten(one.resource, MAX_RESOURCE),
            reason=wording.shorten(one.reason, MAX_REASON),
        )
        room -= len(short.resource) + len(short.reason)
        if room <= 0:
            break
        short = msgspec.structs.replace(short, details=cut(one.details, min(MAX_DETAILS, room)))
        room -= len(short.details)
        kept.append(short)
    return TaskPreview(
        digest=hashlib.sha256(msgspec.json.encode(found)).hexdigest(),
        changed=sum(not one.blocked for one in found),
        blocked=sum(one.blocked for one in found),
        changes=kept,
    )


def cut(text: str, limit: int) -> str:
    """Return the first lines of a text, and how many more there are."""
    if len(text) <= limit:
        return text
    lines = text.split("\n")
    for number in range(len(lines) - 1, 0, -1):
        said = "\n".join((*lines[:number], f"... and {len(lines) - number} more lines"))
        if len(said) <= limit:
            return said
    return wording.shorten(text, limit) if limit > len(wording.GAP) else ""
