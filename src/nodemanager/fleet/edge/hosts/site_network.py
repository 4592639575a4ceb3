"""The storage network of a site, as its hosts tell it: bonds that are whole, and alike. Pure.

While the bonds of two nodes differ in mode, every second packet is lost over direct cables, or switches that
are not joined, as long as that lasts. One ping may miss it, and a host alone cannot see it. Bonds
that send by one card each get nothing through there, unless these are the ends of one cable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nodemanager.api.common.edge_state import BondState, EdgeState
from nodemanager.api.edge.edgecluster import HEALTHY, UNHEALTHY, UNKNOWN
from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.api.edge.profile_parts import ACTIVE_BACKUP, DIRECT, ISOLATED, SiteNetwork
from nodemanager.fleet.edge.hosts import reports
from nodemanager.fleet.edge.storage.judging import StorageVerdict
from nodemanager.kube.wording import plural

DOWN: Final = "down"
ARMED: Final = "Armed"
RESTORING: Final = "Restoring"
RESTORE_FAILED: Final = "RestoreFailed"


def judge(told: Mapping[str, EdgeState], spec: EdgeProfileSpec) -> StorageVerdict:
    """Judge the network between hosts by what they report; they do not test it with packets."""
    wanted = spec.network or SiteNetwork()
    faults: list[str] = []
    unknown = [f"{host}: {one.error}" for host, one in told.items() if one.error]
    bonds: dict[str, BondState] = {}
    for host, state in told.items():
        if state.error:
            continue
        found = reports.bond(state, spec)
        if found is None:
            faults.append(f"{host} has no bond {wanted.bond}")
            continue
        bonds[host] = found
        faults += [f"{host}: {text}" for text in _bond_faults(found)]
        faults += [f"{host}: {text}" for text in _vlan_faults(state, wanted)]
        unknown += [f"{host}: nobody monitors the links of {found.name}"] if not found.monitor else []
    modes: dict[str, list[str]] = {}
    for host, found in bonds.items():
        modes.setdefault(found.mode, []).append(host)
    if spec.topology.links in (DIRECT, ISOLATED) and list(modes) == [ACTIVE_BACKUP]:
        dark, untold = _ends(bonds, wanted.bond)
        faults, unknown = [*dark, *faults], [*untold, *unknown]
    sizes = _size_faults({host: told[host] for host in bonds}, wanted)
    faults = [*_mode_faults(modes, spec, wanted), *_unrestored(told, wanted.bond), *sizes, *faults]
    summary = f"{wanted.bond} is {next(iter(modes), '')} on {plural(len(told), 'node')}"
    word = UNHEALTHY if faults else UNKNOWN if unknown else HEALTHY
    return StorageVerdict(word, tuple(faults), tuple(unknown), summary)


def _mode_faults(modes: Mapping[str, list[str]], spec: EdgeProfileSpec, wanted: SiteNetwork) -> Iterator[str]:
    if len(modes) > 1:
        told = ", ".join(f"{mode or 'of no known mode'} on {' and '.join(on)}" for mode, on in modes.items())
        lossy = spec.topology.links in (DIRECT, ISOLATED)
        yield f"{wanted.bond} is half-flipped: {told}" + ("; every second packet is lost" if lossy else "")
    elif modes and wanted.modes is not None:
        mode = next(iter(modes))
        if mode not in (wanted.modes.single, wanted.modes.multi):
            yield f"{wanted.bond} is {mode or 'of no known mode'}, which is no mode of the profile"


def _size_faults(told: Mapping[str, EdgeState], wanted: SiteNetwork) -> Iterator[str]:
    """Yield bonds and VLANs that accept larger packets on one host than on another, which drops them.

    An MTU that is not known (0) proves nothing.
    """
    for name in (wanted.bond, *(vlan.name for vlan in wanted.vlans)):
        sizes: dict[int, list[str]] = {}
        for host, state in told.items():
            # A bond has its own; a VLAN has it as a link.
            found = [one.mtu for one in state.bonds if one.name == name]
            found += [one.mtu for one in state.links if one.name == name]
            sizes.setdefault(next(filter(None, found), 0), []).append(host)
        known = ", ".join(f"{mtu} on {' and '.join(on)}" for mtu, on in sizes.items() if mtu)
        if len(sizes.keys() - {0}) > 1:
            yield f"{name} differs in MTU: {known}; larger packets are lost"


def _ends(bonds: Mapping[str, BondState], bond: str) -> tuple[list[str], list[str]]:
    """Return what is wrong with the cards that the bonds of nodes send with, and what is unknown of that.

    No report says which cable leads where: cards of one name are taken for its two ends where all nodes have
    cards of the same names.
    """
    if len(bonds) == 1:
        return [], []
    if untold := [host for host, one in bonds.items() if not one.active]:
        return [], [f"{host}: nothing is said of the card by which {bond} sends" for host in untold]
    active = {host: one.active for host, one in bonds.items()}
    if len(set(active.values())) == 1:
        return [], []
    told = ", ".join(f"{card} on {host}" for host, card in active.items())
    if len({frozenset(card.name for card in one.slaves) for one in bonds.values()}) == 1:
        return [f"{bond} sends by different cards: {told}; nothing gets through"], []
    return [], [f"{bond} sends by {told}; nobody knows whether these are the ends of one cable"]


def _bond_faults(found: BondState) -> Iterator[str]:
    if found.state == DOWN:
        yield f"{found.name} is down"
    elif not found.slaves:
        yield f"{found.name} has no cards"
    elif found.monitor:
        lost = [one.name for one in found.slaves if not reports.is_up(found, one.name)]
        if lost:
            yield f"{', '.join(lost)} of {found.name} is down"


def _vlan_faults(state: EdgeState, wanted: SiteNetwork) -> Iterator[str]:
    there = {one.name: one for one in state.vlans}
    for vlan in wanted.vlans:
        found = there.get(vlan.name)
        if found is None:
            yield f"it has no VLAN {vlan.name}"
        elif found.id not in (0, vlan.id):
            yield f"{vlan.name} has the number {found.id}, and not {vlan.id}"
        elif found.state == DOWN:
            yield f"{vlan.name} is down"


def _unrestored(told: Mapping[str, EdgeState], bond: str) -> Iterator[str]:
    for host, state in told.items():
        if any(one.bond == bond and one.phase == RESTORE_FAILED for one in state.bond_changes):
            yield f"{host}: {bond} could not be put back; a bondRevert tries again"


def under_way(told: Mapping[str, EdgeState], bond: str, phase: str) -> list[str]:
    """Return which hosts are in this phase of a change of their bond, with the wanted mode."""
    return [
        f"{host} ({one.mode})"
        for host, state in told.items()
        for one in state.bond_changes
        if one.bond == bond and one.phase == phase
    ]
