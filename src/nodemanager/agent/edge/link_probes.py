"""Steps that prove what links carry: each card by itself, and all of them together. They change nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar, Final

from nodemanager.agent.tasks.attempts import Attempt, AttemptResult, Performer
from nodemanager.api.maintenance import edge_steps
from nodemanager.api.maintenance.edge_steps import LinkProbeAction
from nodemanager.host.base import HostError, Runner
from nodemanager.host.edge import loss_probe, path_probe
from nodemanager.host.edge.bond_changes import Evidence
from nodemanager.host.edge.loss_probe import Loss
from nodemanager.host.edge.path_probe import FrameProbe, OpenSocket
from nodemanager.host.process.runner import CommandTimedOut

FRAMES: Final = 10
PINGS: Final = 50
POLL: Final = 1.0
LEAST: Final = 5.0
"""Seconds that pings get, even if the time of their step is nearly up."""


@dataclass(frozen=True, slots=True)
class LinkProbes(Performer):
    """Probes links for tasks."""

    DROPPED: ClassVar[bool] = True

    root: str
    host: str
    """Tells frames of this host from those of the peer."""
    run: Runner
    open_socket: OpenSocket = path_probe.packet_socket

    async def perform(self, action: LinkProbeAction, attempt: Attempt) -> AttemptResult:
        """Probe until it holds, or the time is up; paths first, because the rest needs them."""
        loop = asyncio.get_running_loop()
        until = loop.time() + attempt.timeout
        evidence: Evidence = {}
        if action.paths is not None:
            bad = await self._paths(action.paths, attempt.timeout, evidence)
            if bad:
                said = f"not within {attempt.timeout:g} s: no frames in both directions on {', '.join(bad)}"
                return AttemptResult(succeeded=False, message=said, evidence=evidence)
        if action.loss is not None:
            lost = await self._loss(action.loss, until)
            evidence["loss"] = lost.words()
            if not lost.received == lost.sent > 0:
                said = f"not within {attempt.timeout:g} s: {lost.words()} to {action.loss.address} came back"
                return AttemptResult(succeeded=False, message=said, evidence=evidence)
        return AttemptResult(succeeded=True, evidence=evidence)

    async def _paths(self, action: edge_steps.PathProbe, seconds: float, evidence: Evidence) -> list[str]:
        """Return the cards that are not proven."""
        frames = action.frames or FRAMES
        probe = FrameProbe(self.root, action.session, self.host, frames, self.open_socket)
        proofs = await probe.run(action.bond, seconds, action.cards)
        evidence.update({card: proof.words() for card, proof in proofs.items()})
        return [card for card, proof in proofs.items() if not proof.proven(frames)]

    async def _loss(self, action: edge_steps.LossProbe, until: float) -> Loss:
        """Return the first round without loss, or the last one."""
        loop, count = asyncio.get_running_loop(), action.count or PINGS
        found: Loss | None = None
        while True:
            left = max(until - loop.time(), LEAST)
            try:
                found = await loss_probe.probe(
                    self.run, self.root, action.address, action.interface, count, left
                )
            except CommandTimedOut:
                if found is None:
                    raise
                return found  # how much was lost says more than that there was no time for another round
            except HostError:  # while links come up again, there may be no address or route
                if loop.time() >= until:
                    raise
            else:
                if found.received == found.sent > 0 or loop.time() >= until:
                    return found
            await asyncio.sleep(POLL)
