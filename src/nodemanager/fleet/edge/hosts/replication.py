"""DRBD of a site, as its hosts tell it: what they see of themselves, and of one another. Pure.

Only hosts know which blocks differ. One side alone proves little: it calls itself UpToDate when it has
lost its peer, too. So a resource is well only where every side says that it is connected, and that nothing
differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nodemanager.api.common.edge_state import (
    DISKLESS,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdState,
    DrbdVolume,
)
from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED, UNHEALTHY, UNKNOWN
from nodemanager.fleet.edge.storage.facts import AT_REST, UP_TO_DATE
from nodemanager.fleet.edge.storage.judging import StorageVerdict
from nodemanager.kube.wording import plural

CONNECTED: Final = "Connected"
SYNCS: Final = ("SyncSource", "SyncTarget", "PausedSyncS", "PausedSyncT")
RUNS: Final = "no"
"""The word of DRBD for IO that is not suspended."""


def syncing(resource: DrbdResource) -> bool:
    """Tell whether copies of a resource are being made, or would be made if nobody had paused that."""
    return any(volume.replication in SYNCS for peer in resource.peers for volume in peer.volumes)


def progress(resource: DrbdResource) -> list[int]:
    """Return how many percent of syncs are done."""
    volumes = [volume for peer in resource.peers for volume in peer.volumes]
    return [one.done for one in volumes if one.done is not None and one.replication in SYNCS]


def is_well(resource: DrbdResource) -> bool:
    """Tell whether a host sees no fault in one of its resources, and can see all that is needed to say so."""
    return not any(faults_here(resource)) and not any(_unknown_here(resource))


def omitted_unwell(state: DrbdState) -> int | None:
    """Return how many of the resources that a host leaves out are not known to be well; None: not told.

    An agent of before does not say. But it tells of those first: if there is room for others, these are all.
    """
    if state.omitted_unwell is not None:
        return min(state.omitted_unwell, state.omitted)
    return 0 if not state.omitted or any(map(is_well, state.resources)) else None


def faults_here(resource: DrbdResource) -> Iterator[str]:
    """Yield the faults that a host sees in one of its resources."""
    if resource.suspended not in ("", RUNS):
        yield f"its IO is suspended ({resource.suspended})"
    if any(volume.quorum is False for volume in resource.volumes):
        yield "it has no quorum: writes fail or hang"
    for volume in resource.volumes:
        if fault := _disk_fault(volume):
            yield f"its disk is {fault}"
    for peer in resource.peers:
        yield from _peer_faults(peer)


def _disk_fault(volume: DrbdVolume | DrbdPeerVolume) -> str:
    """Return the state of a disk that is not good; clients and tie-breakers have no disk and need none."""
    if volume.disk == DISKLESS:
        return "lost (Diskless)" if volume.client is False else ""
    return volume.disk if volume.disk != UP_TO_DATE else ""


def _peer_faults(peer: DrbdPeer) -> Iterator[str]:
    if peer.connection != CONNECTED:
        yield f"it is not connected to {peer.name} ({peer.connection or 'nothing is said of it'})"
        return
    for volume in peer.volumes:
        if volume.replication in SYNCS:
            yield f"{_sync(volume)} with {peer.name}"
        elif fault := _disk_fault(volume):
            # Only we can report it: the host of that disk may have no agent, or one that does not look at
            # DRBD.
            yield f"the disk of {peer.name} is {fault}"
        elif volume.replication not in ("", *AT_REST):
            yield f"it is at {volume.replication} with {peer.name}"
        elif volume.out_of_sync:
            yield f"{volume.out_of_sync} KiB differ from {peer.name}"
        if volume.replication not in SYNCS and _paused(volume):
            # A pause outlives the sync that it was meant for, and stops the next one, too.
            yield f"its next sync with {peer.name} is paused by {volume.resync_suspended}"


def _paused(volume: DrbdPeerVolume) -> bool:
    return volume.resync_suspended not in ("", RUNS)


def _sync(volume: DrbdPeerVolume) -> str:
    if volume.replication.startswith("Paused") or _paused(volume):
        who = f" by {volume.resync_suspended}" if _paused(volume) else ""
        return f"its sync is paused{who}"
    return "it is synced" + (f", {volume.done} % done," if volume.done is not None else "")


def _unknown_here(resource: DrbdResource) -> Iterator[str]:
    if not resource.suspended:
        yield "nothing is said of whether its IO is suspended"
    if not resource.volumes or any(not volume.disk for volume in resource.volumes):
        yield "nothing is said of its disk"
    if any(_unproven(volume) for volume in resource.volumes):
        yield "nothing is said of why it has no disk"
    for peer in resource.peers:
        if peer.connection == CONNECTED and any(not one.disk for one in peer.volumes):
            yield f"nothing is said of the disk of {peer.name}"
        if peer.connection == CONNECTED and any(_unproven(one) for one in peer.volumes):
            yield f"nothing is said of why {peer.name} has no disk"
        told = [volume for volume in peer.volumes if volume.replication and volume.out_of_sync is not None]
        if peer.connection == CONNECTED and (len(told) < len(peer.volumes) or not peer.volumes):
            yield f"nothing is said of what differs from {peer.name}"
        if peer.connection == CONNECTED and any(not one.resync_suspended for one in peer.volumes):
            yield f"nothing is said of whether its next sync with {peer.name} is paused"


def _unproven(volume: DrbdVolume | DrbdPeerVolume) -> bool:
    return volume.disk == DISKLESS and volume.client is None


def _left_out(host: str, state: DrbdState) -> str:
    """Return what is not told of the resources for which a status has no room, but that they are unwell."""
    if (unwell := omitted_unwell(state)) is None:
        return f"{host}: nothing is told of {plural(state.omitted, 'more resource')}"
    return f"{host}: {plural(unwell, 'more resource')} not known to be well" if unwell else ""


def judge(told: Mapping[str, DrbdState | None], copies: int, *, complete: bool = True) -> StorageVerdict:
    """Say how the resources of hosts are, of which there shall be so many copies on all hosts of the site.

    Unless these are all hosts (`complete`), copies are not counted: others may have them.
    """
    faults: list[str] = []
    unknown = [f"{host}: {one.error}" for host, one in told.items() if one is not None and one.error]
    unknown += [text for host, one in told.items() if one is not None and (text := _left_out(host, one))]
    holders: dict[str, int] = {}
    for host, seen in told.items():
        for resource in seen.resources if seen is not None else ():
            where = f"{resource.name} on {host}"
            faults += [f"{where}: {text}" for text in faults_here(resource)]
            unknown += [f"{where}: {text}" for text in _unknown_here(resource)]
            lone = copies > 1 and not resource.peers
            faults += [f"{where}: it has no connection"] if lone else []
            has = any(volume.disk != DISKLESS for volume in resource.volumes)
            holders[resource.name] = holders.get(resource.name, 0) + has
    if complete and not any(one is not None and (one.omitted or one.error) for one in told.values()):
        lacking = sorted(name for name, count in holders.items() if count < copies)
        faults += [f"{name} has {holders[name]} of {copies} copies" for name in lacking]
    loaded = any(one is not None for one in told.values())
    state = UNHEALTHY if faults else UNKNOWN if unknown else HEALTHY if loaded else NOT_OBSERVED
    kept = plural(len(holders), "resource"), plural(sum(holders.values()), "copy", "copies")
    summary = f"{', '.join(kept)}, nothing differs"
    return StorageVerdict(
        state, tuple(faults), tuple(unknown), summary if loaded else "DRBD is loaded nowhere"
    )
