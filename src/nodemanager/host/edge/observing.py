"""Observes everything on a host of an edge site in one go; a failure of one part does not hide the others."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nodemanager.api.common.edge_state import MAX_MESSAGE, EdgeState
from nodemanager.host.base import Runner
from nodemanager.host.edge import drbd, kairos, links
from nodemanager.host.edge.links import NetworkState
from nodemanager.kube import wording


async def observe(root: str | Path, run: Runner) -> EdgeState:
    """Return the state of links, bonds, VLANs, DRBD and boot; the comparing caller adds the time."""
    network, storage = await asyncio.gather(_network(root, run), drbd.observe(root, run))
    seen, error = network
    return EdgeState(
        boot=kairos.observe(root), links=seen.links, bonds=seen.bonds, vlans=seen.vlans, drbd=storage,
        error=error,
    )  # fmt: skip


async def _network(root: str | Path, run: Runner) -> tuple[NetworkState, str]:
    try:
        return await links.observe(root, run), ""
    except OSError as error:  # a link went away while it was looked at
        said = wording.shorten(f"cannot look at links: {error}", MAX_MESSAGE)
        return NetworkState([], [], []), said
