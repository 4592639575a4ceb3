"""Actions on a resource of DRBD: pause and resume resyncs by the flag of this host, and verify.

They use drbdsetup, which needs no configuration: under LINSTOR only the satellite has it, not drbdadm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.api.common.edge_state import (
    DISKLESS,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdVolume,
)
from nodemanager.host.base import Follower, HostError, Runner
from nodemanager.host.edge import drbd, drbd_verify
from nodemanager.host.edge.drbd_verify import VERIFYING, Heard

PAUSE, RESUME, VERIFY = "pause-sync", "resume-sync", "verify"
WHOLE: Final = "--start=0"
"""Without it, a verify continues where an earlier one was interrupted, and does not cover what was before."""
USER: Final = "user"
POLL: Final = 2.0
UNHEARD: Final = 15
"""How many looks may find a verify ended before its end must have been reported."""
_TIMEOUT: Final = 30.0


class Target(NamedTuple):
    """A volume on a peer, in the form that drbdsetup needs."""

    minor: int
    node: int
    volume: int


@dataclass(frozen=True, slots=True)
class DrbdControl:
    """DRBD of one host."""

    root: str | Path
    run: Runner
    follow: Follower
    poll: float = POLL

    async def resource(self, name: str) -> tuple[str, DrbdResource]:
        """Return the version of DRBD and a resource; raises HostError if there is none such."""
        version, found = await drbd.resources(self.root, self.run)
        for one in found:
            if one.name == name:
                return version, one
        raise HostError(f"cannot find resource {name} of DRBD on this host: there is none of this name")

    async def paused(self, name: str, *, paused: bool) -> list[Target]:
        """Return the volumes on peers whose resync this host has paused, or has not."""
        _, found = await self.resource(name)
        return targets(found, paused=paused)

    async def set_paused(self, name: str, wanted: Iterable[Target] | None, *, paused: bool) -> int:
        """Pause or resume; of `wanted` volumes, or of all. Returns how many were not so before."""
        version, found = await self.resource(name)
        chosen = None if wanted is None else set(wanted)
        there = [one for one in targets(found, paused=not paused) if chosen is None or one in chosen]
        for one in there:
            argv = command(version, PAUSE if paused else RESUME, name, one)
            (await self.run(argv, timeout=_TIMEOUT)).check()
        left = [one for one in await self.paused(name, paused=not paused) if chosen is None or one in chosen]
        if left:
            raise HostError(
                f"cannot {PAUSE if paused else RESUME} {name}: drbdsetup did, and {len(left)} of its volumes"
                " are as before"
            )
        return len(there)

    async def verify(self, name: str) -> int:
        """Compare with all peers that have data, one after the other; return how many KiB differ.

        Raises HostError unless everything was compared: a verify that was broken off for a moment looks, a
        moment later, like one that found nothing.
        """
        version, found = await self.resource(name)
        compared = _with_data(found)
        keys = frozenset((one.node, one.volume) for one in compared)
        async with drbd_verify.listening(self.follow, name, keys) as heard:
            for one in compared:
                await self._compare(version, name, one, heard)
            _, after = await self.resource(name)
            heard.check()
        there_now = [_volume(after, one) for one in compared]
        if why := next(filter(None, (_not_comparable(name, *one) for one in there_now)), ""):
            raise HostError(why)
        left = [there.out_of_sync for _, there in there_now]
        if None in left:
            raise HostError(f"cannot tell what differs of {name}: DRBD does not say how much is out of sync")
        return sum(one or 0 for one in left)

    async def _compare(self, version: str, name: str, target: Target, heard: Heard) -> None:
        """Have a volume compared with one peer to the end; one that is under way is waited for."""
        key = (target.node, target.volume)
        _, now = await self.resource(name)
        peer, there = _volume(now, target)
        if there.replication not in VERIFYING:
            if why := _not_comparable(name, peer, there):
                raise HostError(why)
            heard.forget(key)
            (await self.run([*command(version, VERIFY, name, target), WHOLE], timeout=_TIMEOUT)).check()
        left = UNHEARD
        while left:
            heard.check()
            _, now = await self.resource(name)
            peer, there = _volume(now, target)
            if peer.connection != drbd.CONNECTED:
                raise HostError(f"cannot verify {name}: its connection to {peer.name} is {peer.connection}")
            verifies = there.replication in VERIFYING
            if not verifies and key in heard.over:
                return
            left = UNHEARD if verifies else left - 1
            await heard.wait(self.poll)
        raise HostError(f"cannot verify {name}: it is over, and drbdsetup events2 did not say how it ended")


def command(version: str, verb: str, name: str, target: Target) -> list[str]:
    """Return the arguments of drbdsetup: a minor number for 8.4; resource, peer and volume for 9. Pure."""
    if version == "8":
        return ["drbdsetup", verb, str(target.minor)]
    return ["drbdsetup", verb, name, str(target.node), str(target.volume)]


def all_targets(found: DrbdResource) -> list[Target]:
    """Return the volumes on all peers; raises HostError if there is no peer."""
    minors = {one.volume: one.minor for one in found.volumes}
    there = [Target(minors.get(one.volume, 0), peer.node_id, one.volume)
             for peer in found.peers for one in peer.volumes]  # fmt: skip
    if not there:
        raise HostError(f"cannot go on with {found.name}: it has no peer")
    return there


def _with_data(found: DrbdResource) -> list[Target]:
    """Return the volumes on peers that have data, as a tie-breaker has not; raises HostError without any.

    A copy whose disk is lost has none, either, and is not left out: what is equal without it is not all.
    """
    if why := next(_lost(found), ""):
        raise HostError(f"cannot verify {found.name}: {why}; attach a disk, or have the copy removed")
    here = {one.volume for one in found.volumes if one.disk == DISKLESS}
    there = [one for one in all_targets(found)
             if one.volume not in here and _volume(found, one)[1].disk != DISKLESS]  # fmt: skip
    if not there:
        raise HostError(f"cannot verify {found.name}: there are no two hosts here that have its data")
    return there


def _lost(found: DrbdResource) -> Iterator[str]:
    """Yield which disks are missing, unless it is known that there shall be none; pure."""
    there: list[tuple[str, DrbdVolume | DrbdPeerVolume]] = [("", one) for one in found.volumes]
    there += [(f" on {peer.name}", one) for peer in found.peers for one in peer.volumes]
    for where, volume in there:
        if volume.disk == DISKLESS and not volume.client:
            lost = "lost (Diskless)" if volume.client is False else "Diskless, and nothing says why"
            yield f"the disk of volume {volume.volume}{where} is {lost}"


def targets(found: DrbdResource, *, paused: bool) -> list[Target]:
    """Return the volumes on peers whose resync this host has paused, or has not; pure."""
    by_user = {(peer.node_id, one.volume): USER in one.resync_suspended.split(",")
               for peer in found.peers for one in peer.volumes}  # fmt: skip
    return [one for one in all_targets(found) if by_user[one.node, one.volume] == paused]


def _volume(found: DrbdResource, target: Target) -> tuple[DrbdPeer, DrbdPeerVolume]:
    for peer in found.peers:
        for one in peer.volumes:
            if (peer.node_id, one.volume) == (target.node, target.volume):
                return peer, one
    raise HostError(f"cannot go on with {found.name}: volume {target.volume} on a peer is gone")


def _not_comparable(name: str, peer: DrbdPeer, there: DrbdPeerVolume) -> str:
    in_sync = peer.connection == drbd.CONNECTED and there.replication == drbd.ESTABLISHED
    if in_sync and there.disk != DISKLESS:
        return ""
    state = ", ".join(one or "unknown" for one in (peer.connection, there.replication, there.disk))
    return f"cannot verify {name}: it is not connected and in sync with {peer.name} ({state})"
