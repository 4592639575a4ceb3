"""Records what a stage is about to do, before it is done: what cannot be recorded is not done."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from nodemanager.host.kind_parts import HostPart, StageWork
from nodemanager.host.process.threads import in_thread
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.host.state.ownership_ledger import OwnershipLedger, OwnershipLedgerError
from nodemanager.plan import ownership, services
from nodemanager.plan.desired import Item
from nodemanager.plan.host_kinds import Owning
from nodemanager.plan.ownership import Owned, Sighting
from nodemanager.plan.resources import FILE, ResourceId
from nodemanager.plan.steps import Blocked, Step

log = logging.getLogger(__name__)


async def noted(
    ledger: OwnershipLedger, owning: Owning[Any, Any, Any], steps: list[Step], work: StageWork, facts: Any,
    part: HostPart[Any, Any],
) -> list[Step]:  # fmt: skip
    """Return the steps, once it is on disk how their resources are now and how they leave them.

    Steps of sets that do not prune are done without that, too: what has no record is never taken back.
    """
    if not steps:
        return steps
    items = {item.id: item for item in work.given.desired.items.get(steps[0].id.kind, ())}
    new = steps  # what the record says is not known before it was read
    try:
        known = ledger.owned
        new = [
            one
            for one in steps
            if one.id in items and _is_news(known.get(one.id), ledger, owning, items[one.id], one, facts)
        ]
        seen: list[Sighting] = []
        whole = await part.complete(new, work) if new else []
        for one in whole:
            item = items[one.id]
            if (states := owning.seen(item, one, facts)) is not None:
                seen.append(Sighting(one.id, ledger.named(item.sources), *states))
        if seen:
            await in_thread(lambda: ledger.note(seen))
    except OwnershipLedgerError as error:
        log.warning("%s", error)
        return _blocked(steps, {one.id for one in new if ledger.prunes(one.sources)}, str(error))
    unread = {one.id: one for one in whole if isinstance(one, Blocked) and ledger.prunes(one.sources)}
    return [unread.get(one.id, one) for one in steps]


_TRIED: Final = (ResourceOutcome.FAILED, ResourceOutcome.CHANGED)


async def tell_failures(ledger: OwnershipLedger, results: Sequence[Result]) -> None:
    """Record what could not be brought about: if it is there one day, somebody else may have brought it."""
    found = {one.id: one.outcome is ResourceOutcome.FAILED for one in results if one.outcome in _TRIED}
    try:
        owned = ledger.owned
        blocked = {one.id for one in results if one.outcome is ResourceOutcome.BLOCKED}
        found |= {one: True for one in blocked & owned.keys() if owned[one].foreseen}
        new = {one: failed for one, failed in found.items() if one in owned and owned[one].failed != failed}
        if new:
            await in_thread(lambda: ledger.fail(new))
    except OwnershipLedgerError as error:
        log.warning("%s", error)


def owned_folders(ledger: OwnershipLedger | None) -> set[str]:
    """Return where files are, or were, that this host has because of some set."""
    try:
        owned = ledger.owned if ledger is not None else {}
    except OwnershipLedgerError:
        return set()
    return {one.name.rpartition("/")[0] or "/" for one in owned if one.kind == FILE}


async def foresee(ledger: OwnershipLedger, work: StageWork, part: HostPart[Any, Any]) -> None:
    """Record which services are not there before packages are installed, or files are written.

    Some packages start their services; and what had no unit file before, nobody else has started.
    """
    try:
        owned = ledger.owned
        new = tuple(
            item
            for item in work.given.desired.services
            if item.id not in owned or (owned[item.id].failed and owned[item.id].foreseen)
        )
        facts = (await part.observe(new, work)).services if new else {}
        absent = [one for one in new if not facts[one.id].known and not facts[one.id].error]
        coming = {
            one.id: Owned(ledger.named(one.sources), services.missing(one.declaration)) for one in absent
        }
        if coming:
            await in_thread(lambda: ledger.foresee(coming))
    except OwnershipLedgerError as error:
        log.warning("%s", error)  # without a record, nothing of them is changed either


def _is_news(
    known: Owned | None, ledger: OwnershipLedger, owning: Owning[Any, Any, Any], item: Item[Any], step: Step,
    facts: Any,
) -> bool:  # fmt: skip
    """Tell whether the record does not have it yet: a repair, which is in a hurry, brings no news."""
    if known is not None and known.failed and not step.ACTS:
        return True  # somebody else has done it
    states = owning.seen(item, step, facts) if step.ACTS else None
    return ownership.is_news(known, ledger.named(item.sources), states[1] if states else None)


def _blocked(steps: Sequence[Step], new: AbstractSet[ResourceId], why: str) -> list[Step]:
    return [
        Blocked(id=one.id, sources=one.sources, reason=why) if one.ACTS and one.id in new else one
        for one in steps
    ]
