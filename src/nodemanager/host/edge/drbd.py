"""DRBD of a host, 8.4 and 9 in one model: its present state, and what follows from that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from nodemanager.api.common.edge_state import (
    DISKLESS,
    MAX_MESSAGE,
    MAX_PEERS,
    MAX_RESOURCES,
    MAX_VOLUMES,
    MAX_WORD,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdState,
    DrbdVolume,
)
from nodemanager.host.base import HostError, NotSupported, Runner
from nodemanager.host.edge import drbd_9, drbd_84
from nodemanager.host.process.runner import RunError
from nodemanager.kube import wording
from nodemanager.kube.errors import UNREADABLE
from nodemanager.kube.hints import NAME_MAX

T = TypeVar("T", DrbdResource, DrbdVolume, DrbdPeer, DrbdPeerVolume)
PROC: Final = "proc/drbd"
_VERSION: Final = re.compile(r"^version: (\d+)\.(\S+)")
_LIMIT: Final = 1024 * 1024
_TIMEOUT: Final = 20.0
_MAX_NUMBER: Final = 2**63 - 1
CONNECTED, ESTABLISHED, UP_TO_DATE, NO = "Connected", "Established", "UpToDate", "no"
MAX_ENTRIES: Final = 2048
"""The most resources, volumes and peers together in a status, which has other content, too."""


async def observe(root: str | Path, run: Runner) -> DrbdState | None:
    """Return the state of DRBD; None if its module is not loaded. Unreadable parts are an `error`."""
    text = _proc(root)
    if text is None:
        return None
    found = _VERSION.match(text)
    if found is None:
        return DrbdState(error=f"cannot tell which DRBD this is: /{PROC} begins with {text[:40]!r}")
    version = f"{found[1]}.{found[2]}"[:MAX_WORD]
    try:
        resources = await (_of_84(text, run) if found[1] == "8" else _of_9(run))
    except (HostError, RunError, *UNREADABLE, ValueError) as error:
        return DrbdState(version=version, error=wording.shorten(f"cannot read DRBD: {error}", MAX_MESSAGE))
    return bounded(version, resources)


async def resources(root: str | Path, run: Runner) -> tuple[str, list[DrbdResource]]:
    """Return the version and all resources; raises HostError or RunError where these are not known."""
    text = _proc(root)
    found = _VERSION.match(text or "")
    if text is None or found is None:
        raise NotSupported("cannot read DRBD: its module is not loaded on this host")
    try:
        return found[1], await (_of_84(text, run) if found[1] == "8" else _of_9(run))
    except (*UNREADABLE, ValueError) as error:
        raise HostError(f"cannot read DRBD: drbdsetup printed what is no state: {error}") from error


async def _of_84(text: str, run: Runner) -> list[DrbdResource]:
    # Without names there is still a state: a tool that is missing must not hide it.
    try:
        names = drbd_84.parse_names(
            (await run(drbd_84.NAMES, timeout=_TIMEOUT)).check().stdout.decode("ascii", "replace")
        )
    except RunError:
        names = {}
    return drbd_84.parse(text, names)


async def _of_9(run: Runner) -> list[DrbdResource]:
    return drbd_9.parse((await run(drbd_9.STATUS, timeout=_TIMEOUT)).check().stdout)


def is_loaded(root: str | Path) -> bool:
    """Tell whether the module of DRBD is there."""
    return (Path(root) / PROC).exists()


def _proc(root: str | Path) -> str | None:
    try:
        with (Path(root) / PROC).open("rb") as file:
            return file.read(_LIMIT).decode("ascii", "replace")
    except OSError:
        return None


def bounded(version: str, found: list[DrbdResource]) -> DrbdState:
    """Return what a status has room for: of too many, those that are unwell first; the rest as numbers."""
    kept: list[DrbdResource] = []
    room = MAX_ENTRIES
    single = {one.name: one for one in map(_cut, found)}
    for one in sorted(single.values(), key=lambda one: (not unclean(one), one.name)):
        room -= 1 + len(one.volumes) + sum(1 + len(peer.volumes) for peer in one.peers)
        if room < 0 or len(kept) == MAX_RESOURCES:
            break
        kept.append(one)
    kept.sort(key=lambda one: one.name)
    omitted = len(found) - len(kept)
    unwell = sum(bool(unclean(one)) for one in found) - sum(bool(unclean(one)) for one in kept)
    return DrbdState(
        version=version, resources=kept, omitted=omitted, omitted_unwell=max(0, unwell) if omitted else None
    )


def _cut(one: DrbdResource) -> DrbdResource:
    """Return what the schema takes: one odd number or word must not have the whole status refused."""
    peers = [_fit(peer, volumes=[_fit(there) for there in peer.volumes[:MAX_VOLUMES]]) for peer in one.peers]
    return _fit(one, volumes=[_fit(here) for here in one.volumes[:MAX_VOLUMES]], peers=peers[:MAX_PEERS])


def _fit(one: T, **fields: Any) -> T:
    for name in one.__struct_fields__:
        value = getattr(one, name)
        if isinstance(value, str):
            fields[name] = value[: NAME_MAX if name == "name" else MAX_WORD]
        elif isinstance(value, int) and not isinstance(value, bool):
            fields[name] = max(0, min(value, _MAX_NUMBER))
    return msgspec.structs.replace(one, **fields)


def unclean(resource: DrbdResource) -> str:
    """Return why a resource is not known to be replicated and in sync, as this host sees it; pure.

    One look at one side proves little: ask both sides, twice. A side that is not connected believes itself
    to be up to date, and what a verify has not looked at may differ unnoticed.
    """
    if not resource.peers:
        return f"{resource.name} has no peer"
    return next(_faults(resource), "")


def _is_good(volume: DrbdVolume | DrbdPeerVolume) -> bool:
    """Tell whether there is a good disk, or known to be none on purpose."""
    return volume.disk == UP_TO_DATE or (volume.disk == DISKLESS and volume.client is True)


def _faults(resource: DrbdResource) -> Iterator[str]:
    name = resource.name
    if resource.suspended != NO:
        yield f"{name}: IO is suspended ({resource.suspended or 'unknown'})"
    for volume in resource.volumes:
        if not _is_good(volume):
            yield f"{name}/{volume.volume}: its disk is {volume.disk or 'unknown'}"
        if volume.quorum is False:
            yield f"{name}/{volume.volume}: it has no quorum"
    for peer in resource.peers:
        if peer.connection != CONNECTED:
            yield f"{name}: its connection to {peer.name} is {peer.connection or 'unknown'}"
        for there in peer.volumes:
            yield from _peer_faults(name, peer, there)


def _peer_faults(name: str, peer: DrbdPeer, there: DrbdPeerVolume) -> Iterator[str]:
    where = f"{name}/{there.volume} to {peer.name}"
    if there.replication != ESTABLISHED:
        yield f"{where}: replication is {there.replication or 'unknown'}"
    if not _is_good(there):
        yield f"{where}: its disk is {there.disk or 'unknown'}"
    if there.out_of_sync != 0:
        amount = "unknown" if there.out_of_sync is None else f"{there.out_of_sync} KiB"
        yield f"{where}: out of sync: {amount}"
    if there.resync_suspended != NO:
        yield f"{where}: resync is suspended ({there.resync_suspended or 'unknown'})"
