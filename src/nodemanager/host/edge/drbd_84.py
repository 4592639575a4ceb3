"""DRBD 8.4: one peer, and its whole state in /proc/drbd, by minor number. Pure.

Its `cs` combines connection and replication; here they are separated as in 9: Connected is Connected and
Established, WFConnection is Connecting, SyncSource is Connected and SyncSource.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from nodemanager.api.common.edge_state import (
    DISKLESS,
    DrbdPeer,
    DrbdPeerVolume,
    DrbdResource,
    DrbdVolume,
)

PEER: Final = "peer"
"""The name of the one connection there."""
NAMES: Final = ("drbdsetup", "status", "all", "--verbose", "--statistics", "--color=never")
_ROW: Final = re.compile(
    r"^ *(?P<minor>\d+): cs:(?P<cs>\w+)(?: ro:(?P<ro>\w+)/(?P<peer_ro>\w+) ds:(?P<ds>\w+)/(?P<peer_ds>\w+)"
    r" (?P<protocol>[ABC ]?) ?(?P<flags>\S{6}))?"
)
_OOS: Final = re.compile(r"\boos:(\d+)")
_DONE: Final = re.compile(r"(?:sync'ed|verified): *[\d.]+% \((\d+)/(\d+)\)")
"""The remaining and the total amount: the percentage before them is wrong, as seen with 8.4.11."""
_UNCONFIGURED: Final = "Unconfigured"
_CONNECTIONS: Final = {
    **{one: one for one in ("StandAlone", "Disconnecting", "Unconnected", "Timeout", "BrokenPipe",
                            "NetworkFailure", "ProtocolError", "TearDown")},
    "WFConnection": "Connecting", "WFReportParams": "Connecting",
}  # fmt: skip
_CONNECTED, _ESTABLISHED, _OFF = "Connected", "Established", "Off"
_PAUSES: Final = ((3, "u", "user"), (2, "p", "peer"), (1, "a", "dependency"))
"""The place of a flag, its letter, and who has paused the resync."""


class Minor(NamedTuple):
    """The resource and volume of a minor number."""

    resource: str
    volume: int


class Row(NamedTuple):
    """One minor of /proc/drbd."""

    minor: int
    role: str
    peer_role: str
    suspended: str
    connection: str
    disk: str
    peer: DrbdPeerVolume


def parse_names(text: str) -> dict[int, Minor]:
    """Return resources and volumes by minor number from what `drbdsetup status` prints."""
    found: dict[int, Minor] = {}
    resource = ""
    for line in text.splitlines():
        words = line.split()
        if words and not line[0].isspace():
            resource = words[0]
            continue
        said = dict(word.partition(":")[::2] for word in words)
        if resource and said.get("minor", "").isdecimal() and said.get("volume", "").isdecimal():
            found[int(said["minor"])] = Minor(resource, int(said["volume"]))
    return found


def parse(text: str, names: Mapping[int, Minor]) -> list[DrbdResource]:
    """Return the resources of /proc/drbd; a minor without a name is called by its number."""
    by_name: dict[str, list[tuple[int, Row]]] = {}
    for row in _rows(text):
        where = names.get(row.minor, Minor(f"minor-{row.minor}", 0))
        by_name.setdefault(where.resource, []).append((where.volume, row))
    return [_resource(name, rows) for name, rows in by_name.items()]


def _rows(text: str) -> list[Row]:
    rows: list[Row] = []
    for line in text.splitlines():
        if found := _ROW.match(line):
            if found["cs"] != _UNCONFIGURED and found["flags"]:
                rows.append(_row(found))
        elif rows:
            rows[-1] = _with_more(rows[-1], line)
    return rows


def _row(found: re.Match[str]) -> Row:
    state, flags = found["cs"], found["flags"]
    connection = _CONNECTIONS.get(state, _CONNECTED)
    replication = _OFF if connection != _CONNECTED else _ESTABLISHED if state == _CONNECTED else state
    paused = [who for place, letter, who in _PAUSES if flags[place] == letter]
    peer = DrbdPeerVolume(
        replication=replication, disk=found["peer_ds"], client=_client(found["peer_ds"]),
        resync_suspended=",".join(paused) or "no",
    )  # fmt: skip
    suspended = "no" if flags[0] == "r" else "user"
    role, peer_role = found["ro"], found["peer_ro"]
    return Row(int(found["minor"]), role, peer_role, suspended, connection, found["ds"], peer)


def _client(disk: str) -> bool | None:
    """Return whether a disk is missing on purpose: here, that is never so."""
    return False if disk == DISKLESS else None


def _with_more(row: Row, line: str) -> Row:
    """Return a row with what its further lines say: what is out of sync, and how far a resync is."""
    if found := _OOS.search(line):
        return row._replace(peer=replace(row.peer, out_of_sync=int(found[1])))
    if found := _DONE.search(line):
        left, whole = int(found[1]), int(found[2])
        return row._replace(peer=replace(row.peer, done=100 * max(whole - left, 0) // max(whole, 1)))
    return row


def _resource(name: str, rows: list[tuple[int, Row]]) -> DrbdResource:
    first = rows[0][1]
    there = [replace(row.peer, volume=volume) for volume, row in rows]
    peer = DrbdPeer(name=PEER, connection=first.connection, role=first.peer_role, volumes=there)
    return DrbdResource(
        name=name, role=first.role,
        suspended="user" if any(row.suspended != "no" for _, row in rows) else "no",
        volumes=[DrbdVolume(volume=volume, minor=row.minor, disk=row.disk, client=_client(row.disk))
                 for volume, row in rows],
        peers=[peer],
    )  # fmt: skip
