"""What `drbdsetup status --verbose --statistics` of DRBD 8.4 says, to hold our model against it.

Nothing is concluded here: words are split at colons, and lines by how far they are indented.
"""

from __future__ import annotations

from typing import NamedTuple

from nodemanager.api.common.edge_state import DrbdResource

MOVING = ("SyncSource", "SyncTarget", "VerifyS", "VerifyT")
"""While one of these is under way, two looks see two numbers."""


class Words(NamedTuple):
    """What it says of a resource with one volume; no peer where it does not speak of one."""

    resource: dict[str, str]
    volume: dict[str, str]
    peer: dict[str, str]
    peer_volume: dict[str, str]


def split(text: str) -> Words:
    """Return the words of one resource."""
    found = Words({}, {}, {}, {})
    for line in text.splitlines():
        words = dict(word.partition(":")[::2] for word in line.split())
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            found.resource.update(words)
        elif "peer" in words and depth == 2:
            found.peer.update(words)
        elif depth == 2 or (depth > 2 and not found.peer):
            found.volume.update(words)
        else:
            found.peer_volume.update(words)
    return found


def differences(text: str, seen: DrbdResource) -> list[str]:
    """Return where our model of a resource says something else than drbdsetup."""
    words = split(text)
    pairs = [
        ("role", words.resource["role"], seen.role),
        ("suspended", words.resource["suspended"], seen.suspended),
    ]
    pairs.append(("disk", words.volume["disk"], seen.volumes[0].disk))
    there = seen.peers[0].volumes[0]
    if words.peer:
        pairs.append(("connection", words.peer["connection"], seen.peers[0].connection))
        pairs.append(("peer role", words.peer["role"], seen.peers[0].role))
        pairs.append(("replication", words.peer_volume["replication"], there.replication))
        pairs.append(("peer disk", words.peer_volume["peer-disk"], there.disk))
        pairs.append(("resync-suspended", words.peer_volume["resync-suspended"], there.resync_suspended))
        if there.replication not in MOVING:
            pairs.append(("out-of-sync", words.peer_volume["out-of-sync"], str(there.out_of_sync)))
    else:
        pairs.append(("connection", "StandAlone", seen.peers[0].connection))
    return [f"{what}: drbdsetup says {said}, we say {ours}" for what, said, ours in pairs if said != ours]
