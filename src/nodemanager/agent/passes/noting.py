"""Takes down what a stage is about to do, before it is done: what cannot be taken down is not done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodemanager.host.kind_parts import HostPart, Work
from nodemanager.host.process.threads import in_thread
from nodemanager.host.state.ownership_ledger import LedgerError, OwnershipLedger
from nodemanager.plan.desired import Item
from nodemanager.plan.host_kinds import Owning
from nodemanager.plan.ownership import Sighting
from nodemanager.plan.steps import Blocked, Step


async def noted(
    ledger: OwnershipLedger, owning: Owning[Any, Any, Any], steps: list[Step], work: Work, facts: Any,
    part: HostPart[Any, Any],
) -> list[Step]:  # fmt: skip
    """Return the steps, once it is on disk how their resources are now and how they leave them."""
    if not steps:
        return steps
    items = {item.id: item for item in work.given.desired.items.get(steps[0].id.kind, ())}
    try:
        new = [
            one for one in steps if one.id in items and _is_news(ledger, owning, items[one.id], one, facts)
        ]
        seen: list[Sighting] = []
        whole = await part.complete(new, work) if new else []
        for one in whole:
            item = items[one.id]
            if (states := owning.seen(item, one, facts)) is not None:
                seen.append(Sighting(one.id, item.sources, *states))
        if seen:
            await in_thread(lambda: ledger.note(seen))
    except LedgerError as error:
        return _blocked(steps, str(error))
    unread = {one.id: one for one in whole if isinstance(one, Blocked)}
    return [unread.get(one.id, one) for one in steps]


def _is_news(
    ledger: OwnershipLedger, owning: Owning[Any, Any, Any], item: Item[Any], step: Step, facts: Any
) -> bool:
    """Tell whether the record does not have it yet: a repair, which is in a hurry, brings no news."""
    known = ledger.owned.get(item.id)
    if known is None or known.left or known.sets != item.sources:
        return True
    states = owning.seen(item, step, facts) if step.ACTS else None
    return states is not None and (states[1],) != known.ours[-1:]


def _blocked(steps: Sequence[Step], why: str) -> list[Step]:
    return [Blocked(id=one.id, sources=one.sources, reason=why) if one.ACTS else one for one in steps]
