"""What is held back because a file before it cannot be made: for want of a Secret, or for a mistake.

A service that starts without its file uses what is there instead, and a program that needs the file fails.
So nothing of a ConfigSet that comes after files begins while one of its files has no content; nor does what
subscribes to such a file, whichever ConfigSet declares it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nodemanager.plan.desired import Contents, Desired, Failure, Item
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, Step, Waiting

HeldBack = Mapping[ResourceId, tuple[ResourceId, str]]
"""What has to wait, for which file, and what that file waits for; empty = a person has to correct it."""


def put_off(resource: ResourceId, sources: tuple[str, ...], reason: str, awaits: str) -> Blocked:
    """Return the step of something that cannot be done: not yet, if something that it `awaits` may come."""
    if awaits:
        return Waiting(id=resource, sources=sources, reason=reason, awaits=awaits)
    return Blocked(id=resource, sources=sources, reason=reason)


def held_back(
    desired: Desired, contents: Contents, held: Callable[[ResourceId], bool], later: Iterable[Item[Any]]
) -> HeldBack:
    """Return what must not begin before files whose content cannot be had: some of what comes `later`.

    What `held` before, as it is declared now, did so with the files that are there: it may be put back.
    """
    if Failure not in set(map(type, contents.values())):  # nearly always, and asked by every pass
        return {}
    failures = {path: one for path, one in contents.items() if isinstance(one, Failure)}
    of_path: dict[str, tuple[ResourceId, str]] = {}
    of_set: dict[str, tuple[ResourceId, str]] = {}
    for item in desired.files:
        if (failure := failures.get(item.declaration.path)) is not None:
            said = item.id, failure.awaits
            of_path[item.declaration.path] = said
            for name in item.sources:
                of_set.setdefault(name, said)
    found: dict[ResourceId, tuple[ResourceId, str]] = {}
    for one in later:
        causes = [of_path[path] for path in one.subscribes if path in of_path]
        causes += [of_set[name] for name in one.sources if name in of_set]
        if causes and not held(one.id):
            found[one.id] = causes[0]
    return found


def without(steps: Sequence[Step], found: HeldBack) -> list[Step]:
    """Return the steps, with those put off that have to wait."""
    if not found:
        return list(steps)
    return [_instead(one, *found[one.id]) if one.ACTS and one.id in found else one for one in steps]


def _instead(step: Step, file: ResourceId, awaits: str) -> Step:
    why = f"which waits for {awaits}" if awaits else "which cannot be made"
    return put_off(step.id, step.sources, f"waits for {file}, {why}", awaits)
