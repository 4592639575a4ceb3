"""States of a real DRBD put into the world: what `drbdsetup status` printed on a host is what LINSTOR shows.

DRBD 9 prints JSON (`--json`), 8.4 text (`all --verbose --statistics --color=never`), in which the one peer
has no name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from support.linstor.world import FedLink, LinstorWorld


@dataclass
class _Told:
    """What a host says of a resource."""

    role: str = ""
    disk: str = ""
    links: dict[str, FedLink] = field(default_factory=dict)


def feed(world: LinstorWorld, node: str, printed: str, peer: str = "") -> None:
    """Take over what a host says; `peer` is who the other one is, where DRBD does not name it."""
    told = _json(printed) if printed.lstrip().startswith("[") else _text(printed, peer)
    for what in world.definitions.values():
        if node not in what.replicas:
            continue
        said = told.get(what.name, _Told())  # of what is down there, nothing is known
        what.replicas[node].fed = said.disk
        what.replicas[node].in_use = said.role == "Primary"
        what.fed_links = {key: value for key, value in what.fed_links.items() if key[0] != node}
        for other in what.replicas:
            if other != node:  # a resource that stands alone says nothing of its peer
                what.fed_links[node, other] = said.links.get(other, FedLink())


def _json(printed: str) -> dict[str, _Told]:
    found: dict[str, _Told] = {}
    for one in json.loads(printed):
        told = found[one["name"]] = _Told(one["role"], one["devices"][0]["disk-state"])
        for connection in one["connections"]:
            devices: list[dict[str, Any]] = connection.get("peer_devices", [])
            first = devices[0] if devices else {}
            said = first.get("replication-state", "Off")
            done = first.get("percent-in-sync") if said not in ("Off", "Established") else None
            told.links[connection["name"]] = FedLink(connection["connection-state"], said, done)
    return found


def _text(printed: str, peer: str) -> dict[str, _Told]:
    """Read text of lines that are broken at 80 columns: what is further in belongs to the line before."""
    found: dict[str, _Told] = {}
    told = _Told()
    for line in printed.splitlines():
        depth = len(line) - len(line.lstrip())
        words = dict(word.split(":", 1) for word in line.split() if ":" in word)
        if not line.strip() or line.startswith("#"):
            continue
        if depth == 0:
            told = found[line.split()[0]] = _Told(words["role"])
        told.disk = words.get("disk", told.disk)
        if "connection" in words:
            told.links[peer] = FedLink(words["connection"])
        if "replication" in words:
            told.links[peer] = told.links[peer]._replace(replication=words["replication"])
        if "done" in words:
            told.links[peer] = told.links[peer]._replace(done=float(words["done"]))
    return found
