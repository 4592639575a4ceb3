"""Results about the hosts of a rollout that the next look can use again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rollout import RolloutStatus, ThresholdTurn
from nodemanager.fleet.rollout.facts import RolloutHost


class RolloutPart(NamedTuple):
    """One set of a rollout, and what hosts have to know about it."""

    name: str
    status: RolloutStatus


Judged = tuple[ManagedNode, RolloutHost | None]
"""The report of a host, and the judgement about it; None = it takes no part."""


class Remembered(NamedTuple):
    """What is known about hosts before a look."""

    hosts: Mapping[str, Judged]
    """By name."""
    same_turns: bool
    """Whether the turns of hosts began at the same times as at the last look."""


class HostMemory:
    """Judgements about hosts that have reported nothing since; a caller that looks again and again keeps it.

    A cache has the same object of a host until that says something else. What follows from it is the same
    as long as the change is, however far that may be: the threshold only matters to who is silent, of
    whom nothing is remembered, and to since when it is a host's turn.
    """

    def __init__(self) -> None:
        self._about: Sequence[RolloutPart] = ()
        self._turns: Sequence[Sequence[ThresholdTurn]] = ()
        self._known: dict[str, Judged] = {}

    def begin(self, parts: Sequence[RolloutPart]) -> Remembered:
        """Return what is known about hosts; nothing if another change is rolled out by now."""
        about = [RolloutPart(one.name, _without_progress(one.status)) for one in parts]
        if about != self._about:
            self._about, self._known = about, {}
        before, self._turns = self._turns, [one.status.turns for one in parts]
        return Remembered(self._known, before == self._turns)

    def end(self, known: dict[str, Judged]) -> None:
        """Keep what is known after a look; forget hosts that are gone."""
        self._known = known


def _without_progress(status: RolloutStatus) -> RolloutStatus:
    return msgspec.structs.replace(
        status, message="", counts=None, since=None, phase="", reason="", threshold=0, turns=[], stage=0
    )
