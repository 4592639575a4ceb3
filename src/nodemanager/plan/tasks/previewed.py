"""The report of a host about a proposal: what it would change beyond what is due anyway. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

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
from nodemanager.plan.steps import Blocked, Noop, Observed, Step

MAX_ROOM: Final = 16 * 1024
"""Characters of one answer."""
RELEASE: Final = "release"
LEFT: Final = "no ConfigSet declares it then"
PUT_BACK: Final = f"{LEFT}, and its set has it put back as it was before"


def steps(
    proposed: Sequence[Step], now: Sequence[Step], redeclared: AbstractSet[ResourceId] = frozenset()
) -> list[Step]:
    """Return what is to be done because of a proposal, and not already because of what is declared now.

    It does not matter which sets cause them. Obstacles are reported only for `redeclared` resources.
    """
    anyway: dict[ResourceId, list[Step]] = {}
    for one in now:
        if not (isinstance(one, Blocked) and one.id in redeclared):
            anyway.setdefault(one.id, []).append(msgspec.structs.replace(one, sources=()))
    told = (one for one in proposed if not isinstance(one, Noop | Observed))
    return [one for one in told if msgspec.structs.replace(one, sources=()) not in anyway.get(one.id, ())]


def redeclared(proposed: Desired, now: Desired) -> frozenset[ResourceId]:
    """Return what would be declared in another way."""
    before, then = _declared(now), _declared(proposed)
    return frozenset(one for one, said in then.items() if one in before and before[one] != said)


def _declared(desired: Desired) -> dict[ResourceId, Any]:
    return {item.id: item.declaration for group in desired.items.values() for item in group}


def held(desired: Desired) -> list[Step]:
    """Return the resources that are in conflict, as steps."""
    return [Blocked(id=one, sources=(), reason=why) for one, why in desired.held.items()]


def released(proposed: Desired, now: Desired, taken_back: Iterable[Step] = ()) -> list[PreviewedChange]:
    """Return the resources that would no longer be declared: left as they are, or `taken_back` by a step.

    The former state is known only to root, so it is not reported.
    """
    kept = _ids(proposed)
    found = {one: (RELEASE, LEFT) for one in _ids(now) if one not in kept}
    found |= {step.id: (step.words.verb, PUT_BACK) for step in taken_back}
    return [
        PreviewedChange(resource=wording.flat(str(one), MAX_RESOURCE), verb=verb, reason=reason)
        for one, (verb, reason) in found.items()
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
    room = limit - len(_more(text.count("\n")))
    end = text.rfind("\n", 0, room + 1) if room > 0 else -1
    if end > 0:
        return text[:end] + _more(text.count("\n", end))
    return wording.shorten(text, limit) if limit > len(wording.GAP) else ""


def _more(lines: int) -> str:
    return f"\n... and {wording.plural(lines, 'more line')}"
