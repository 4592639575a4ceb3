"""States of a real DRBD put into the world: what `drbdsetup status` printed on a host is what LINSTOR shows.

DRBD 9 prints JSON (`--json`), 8.4 text (`all --verbose --statistics --color=never`), in which the one peer
has no name.
"""

from __future__ import annotations

import json
from typing import Any

from support.linstor.world import LinstorWorld


def feed(world: LinstorWorld, node: str, printed: str, peer: str = "") -> None:
    """Take over what a host says; `peer` is who the other one is, where DRBD does not name it."""
    states = _json(printed) if printed.lstrip().startswith("[") else _text(printed, peer)
    for name, disk, links in states:
        what = world.definitions[name]
        what.replicas[node].fed = disk
        what.fed_links = {key: value for key, value in what.fed_links.items() if key[0] != node}
        for other in what.replicas:
            if other != node:  # a resource that stands alone says nothing of its peer
                what.fed_links[node, other] = links.get(other, ("StandAlone", "Off"))


_States = list[tuple[str, str, dict[str, tuple[str, str]]]]


def _json(printed: str) -> _States:
    found: _States = []
    for one in json.loads(printed):
        links: dict[str, tuple[str, str]] = {}
        for connection in one["connections"]:
            devices: list[dict[str, Any]] = connection.get("peer_devices", [])
            said = devices[0]["replication-state"] if devices else "Off"
            links[connection["name"]] = connection["connection-state"], said
        found.append((one["name"], one["devices"][0]["disk-state"], links))
    return found


def _text(printed: str, peer: str) -> _States:
    found: _States = []
    for line in printed.splitlines():
        depth = len(line) - len(line.lstrip())
        words = dict(word.split(":", 1) for word in line.split() if ":" in word)
        if depth == 0 and line.strip():
            found.append((line.split()[0], "", {}))
        elif depth == 2 and "disk" in words:
            name, _, links = found[-1]
            found[-1] = name, words["disk"], links
        elif depth == 2 and "connection" in words:
            found[-1][2][peer] = words["connection"], "Off"
        elif depth == 4 and "replication" in words:
            found[-1][2][peer] = found[-1][2][peer][0], words["replication"]
    return found
