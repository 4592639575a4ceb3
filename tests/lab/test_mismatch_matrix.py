"""What two bonds lose between them, by how they are wired and in which modes they are: with real bonding.

The table is why the two ends of a storage bond must never be left in different modes: docs/lab.md shows it,
and what our own probes say of each.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from support.lab import figures, probing
from support.lab.probing import Probed
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


def proven(topology: Topology, ends: Ends, node: int) -> set[str]:
    """Return the cards that frames leave and reach, whatever the modes: a bond above drops none of them."""
    if not ends.far_port_dead:
        return set(NICS)
    # On a switch, frames of the card that still has a carrier arrive at the other card of the peer.
    return {NICS[1]} if node == 1 or topology in ISOLATED else set(NICS)


def heard(topology: Topology, ends: Ends, node: int, nic: str) -> set[str]:
    """Return the cards of the peer that a card hears."""
    alive = {NICS[1]} if ends.far_port_dead and node == 0 else set(NICS)
    if nic not in proven(topology, ends, node):
        return set()
    return alive & {nic} if topology in ISOLATED else alive


def words(found: Probed) -> str:
    """Return what a node found out, for the table."""
    paths = ", ".join(f"{nic} {'of ' + '+'.join(there) if there else 'alone'}" for nic, there in
                      sorted(found.heard.items()))  # fmt: skip
    return f"{len(found.proven)} of {len(NICS)} proven ({paths}), {found.lost:.0%} of {found.size} bytes lost"


@pytest.mark.usefixtures("program_site")
@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ends.name)
@pytest.mark.parametrize("topology", list(Topology), ids=lambda one: one.value)
def test_what_is_lost(site: Site, topology: Topology, ends: Ends) -> None:
    site.wire(topology)
    site.bond(*ends.modes, active=ends.active)
    if ends.far_port_dead:
        site.die(1, NICS[0])
    lost = (site.loss(0), site.loss(1))
    probed = probing.probe(site, f"{topology} {ends.name}")
    said = " | ".join(words(one) for one in probed)
    figures.note("mismatch", f"{topology} | {ends.name} | {lost[0]:.0%} | {lost[1]:.0%} | {said}")
    wanted = expected(topology, ends)
    assert lost == pytest.approx((wanted, wanted), abs=0.12 if wanted == HALF else 0)
    for node, found in enumerate(probed):
        assert found.proven == proven(topology, ends, node), "each card by itself"
        for nic, there in found.heard.items():
            assert set(there) == heard(topology, ends, node, nic)
        if (
            wanted == HALF
        ):  # both ends ping at once, and their bonds take turns: more for one, less for the other
            assert 0.05 < found.lost < 0.95, "all of them together; none must believe that nothing is lost"
        else:
            assert found.lost == wanted, "all of them together"
        assert found.size == 1500


@pytest.mark.usefixtures("program_site")
def test_crossed_cables_are_told(site: Site) -> None:
    """All arrives, and each card hears the other card of the peer: a bond would never say so."""
    site.cross()
    site.bond(RR, RR)
    probed = probing.probe(site, "crossed")
    figures.note("mismatch", f"crossed cables | rr/rr | {' | '.join(words(one) for one in probed)}")
    for found in probed:
        assert found.proven == set(NICS)
        assert found.heard == {NICS[0]: [NICS[1]], NICS[1]: [NICS[0]]}
        assert found.lost == 0
