"""How a bond differs from its wanted state. Pure."""

from __future__ import annotations

from collections.abc import Collection

from nodemanager.api.common.edge_state import BondState
from nodemanager.host.edge.bond_plans import BondPlan


def wrong(found: BondState, plan: BondPlan, mode: str, linked: Collection[str]) -> str:
    """Return how a bond differs from what it shall be; `linked` are the cards of it that have a link."""
    if why := misplaced(found, plan, mode):
        return why
    if dead := down(found, plan, linked):
        return f"{dead[0]} is down" if dead == [found.name] else f"{', '.join(dead)} of {found.name} is down"
    return ""


def misplaced(found: BondState, plan: BondPlan, mode: str) -> str:
    """Return how mode and cards of a bond differ from what they shall be."""
    if found.mode != mode:
        return f"the mode of {found.name} is {found.mode}, and not {mode}"
    have = {one.name for one in found.slaves}
    if missing := [name for name in plan.slaves if name not in have]:
        return f"{', '.join(missing)} is not in {found.name}"
    return ""


def down(found: BondState, plan: BondPlan, linked: Collection[str]) -> list[str]:
    """Return the bond, or the cards of it, that were up once and have no link now."""
    if plan.up and found.state == "down":
        return [found.name]
    return [name for name in plan.up if name not in linked]


def silent(found: BondState, plan: BondPlan) -> str:
    """Return how another card sends than the one that did before; empty = it does, or none is known."""
    if not plan.active or found.active == plan.active:
        return ""
    return f"{found.active or 'no card'} of {found.name} sends, and not {plan.active}"
