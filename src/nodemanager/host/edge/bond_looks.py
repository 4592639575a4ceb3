"""Checks whether a bond is as it should be, or as it was, including its VLANs and addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from nodemanager.host.base import HostError, Runner
from nodemanager.host.edge import bond_checks, bond_links, links
from nodemanager.host.edge.bond_plans import BondPlan

NAP: Final = 0.2


@dataclass(frozen=True, slots=True)
class BondLooks:
    """The bonds of one host."""

    root: str
    run: Runner

    async def wrong(self, plan: BondPlan, mode: str) -> str:
        """Return how mode, cards and links of a bond are not as they shall be; empty = they are."""
        found = links.read_bond(self.root, plan.bond)
        return bond_checks.wrong(found, plan, mode, links.with_link(self.root, found))

    async def lacking(self, plan: BondPlan, *, leases: bool = False) -> str:
        """Return what of VLANs and addresses is not there again; one without a link need not have any."""
        if links.read_bond(self.root, plan.bond).state == "down":
            return ""
        return await bond_links.lacking(self.root, self.run, plan.links, leases=leases)

    async def silent(self, plan: BondPlan) -> str:
        """Return how another card sends than before, though that one has a link."""
        found = links.read_bond(self.root, plan.bond)
        linked = plan.active in links.with_link(self.root, found)
        return bond_checks.silent(found, plan) if linked else ""

    def misplaced(self, plan: BondPlan) -> str:
        """Return how mode and cards of a bond are not as they were, its cables left aside."""
        try:
            found = links.read_bond(self.root, plan.bond)
        except HostError as error:
            return str(error)
        up = links.is_up(self.root, plan.bond)
        switched = "" if up else f"{plan.bond} is switched off"
        return bond_checks.misplaced(found, plan, plan.before_mode) or switched

    def told(self, plan: BondPlan) -> dict[str, str]:
        """Return differences of a restored bond that are no failure: dead cables, and the active card."""
        found = links.read_bond(self.root, plan.bond)
        dead = bond_checks.down(found, plan, links.with_link(self.root, found))
        said = {"down": ", ".join(dead)} if dead else {}
        sends = bond_checks.silent(found, plan) if found.active else ""
        return {**said, "sends": sends} if sends else said


async def awaited(look: Callable[[], Awaitable[str]], seconds: float) -> str:
    """Return what is wrong after a while; empty = nothing is."""
    until = asyncio.get_running_loop().time() + seconds
    while why := await look():
        if asyncio.get_running_loop().time() >= until:
            return why
        await asyncio.sleep(NAP)
    return ""
