"""What two bonds lose between them, by how they are wired and in which modes they are: with real bonding.

The table is why the two ends of a storage bond must never be left in different modes: docs/lab.md shows it.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from support.lab import figures
from support.lab.site import NICS, Site, Topology

AB, RR = "active-backup", "balance-rr"
SAME, DIFFERENT = (NICS[0], NICS[0]), (NICS[0], NICS[1])


class Ends(NamedTuple):
    """How the two bonds are."""

    name: str
    modes: tuple[str, str]
    active: tuple[str, str] = SAME
    far_port_dead: bool = False
    """The second node has no carrier on its first card, and the first node still has."""


ENDS = (
    Ends("ab/ab", (AB, AB)),
    Ends("ab/ab, other card active", (AB, AB), DIFFERENT),
    Ends("rr/rr", (RR, RR)),
    Ends("rr/ab", (RR, AB)),
    Ends("rr/rr, far port dead", (RR, RR), far_port_dead=True),
)
ISOLATED = (Topology.CABLES, Topology.APART)
"""Where what is sent by one card can arrive at one other card only."""
HALF, NONE, ALL = 0.5, 0.0, 1.0


def expected(topology: Topology, ends: Ends) -> float:
    """Return what edge sites were seen to lose; a switch that reaches all cards forgives everything."""
    if topology not in ISOLATED:
        return NONE
    if ends.active == DIFFERENT:
        return ALL
    return HALF if ends.far_port_dead or ends.modes == (RR, AB) else NONE


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ends.name)
@pytest.mark.parametrize("topology", list(Topology), ids=lambda one: one.value)
def test_what_is_lost(site: Site, topology: Topology, ends: Ends) -> None:
    site.wire(topology)
    site.bond(*ends.modes, active=ends.active)
    if ends.far_port_dead:
        site.die(1, NICS[0])
    lost = (site.loss(0), site.loss(1))
    figures.note("mismatch", f"{topology} | {ends.name} | {lost[0]:.0%} | {lost[1]:.0%}")
    wanted = expected(topology, ends)
    assert lost == pytest.approx((wanted, wanted), abs=0.12 if wanted == HALF else 0)
