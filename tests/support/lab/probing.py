"""Our probes in guests: what a step linkProbe does, run on both nodes at once without an agent.

The program has to be there (`delivery.deliver`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from support.lab.guest import Failed
from support.lab.site import BOND, NODES, VLAN, Site, address

FRAMES, PINGS = 10, 50
SECONDS = 40
"""In which frames of both ends have to arrive; long enough for one that begins later, on a busy machine."""
_CODE = """
import asyncio, json, sys
from nodemanager.host.edge import loss_probe
from nodemanager.host.edge.path_probe import FrameProbe
from nodemanager.host.process import environment

session, host, bond, frames, seconds, address, interface, pings = sys.argv[1:]

async def probe():
    proofs = await FrameProbe("/", session, host, int(frames)).run(bond, float(seconds))
    lost = await loss_probe.probe(environment.host_runner(), "/", address, interface, int(pings), 300)
    cards = {card: [one.proven(int(frames)), sorted(one.cards)] for card, one in proofs.items()}
    print(json.dumps({"cards": cards, "sent": lost.sent, "received": lost.received, "size": lost.size}))

asyncio.run(probe())
"""


class Probed(NamedTuple):
    """What a node found out."""

    proven: frozenset[str]
    """Cards of this node that frames left and reached."""
    heard: dict[str, list[str]]
    """Cards of the peer that were heard, by the card that heard them."""
    lost: float
    """Share of pings that did not come back."""
    size: int
    """Bytes of each."""


def probe(site: Site, session: str) -> list[Probed]:
    """Have both nodes probe paths at the same time, and then how much is lost."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(partial(_probe_on, site, session), NODES))


def _probe_on(site: Site, session: str, node: int) -> Probed:
    guest = site.guests[node]
    words: Sequence[object] = (
        session, guest.name, BOND, FRAMES, SECONDS, address(1 - node), f"{BOND}.{VLAN}", PINGS
    )  # fmt: skip
    where = "PYTHONPATH=/opt/nodemanager/src:/opt/nodemanager/site"
    done = guest.run("env", where, "python3", "-c", _CODE, *map(str, words), check=False)
    if done.returncode:
        raise Failed(f"cannot probe from {guest.name}: {done.stderr}")
    found = json.loads(done.stdout)
    cards = found["cards"]
    proven = frozenset(card for card, (good, _) in cards.items() if good)
    heard = {card: there for card, (_, there) in cards.items()}
    return Probed(proven, heard, 1 - found["received"] / found["sent"], found["size"])
