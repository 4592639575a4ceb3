"""The turn that the operator gives this host: one pass repairs what is otherwise left alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.fleet.repairs import turns
from nodemanager.fleet.repairs.turns import GrantedRepair

log = logging.getLogger("nodemanager.agent")


class RepairTurn:
    """Knows whether this host has its turn. It needs no API for that after it has heard of the turn."""

    def __init__(
        self,
        pass_now: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._pass_now = pass_now
        self._now = now
        self._turn: GrantedRepair | None = None
        self._begun: GrantedRepair | None = None
        """The turn with which passes began, while it is not over."""
        self._lasts = False
        """Whether its work goes on after the pass."""
        self._used = ""

    @property
    def used(self) -> str:
        """The last turn of this process that is over; the status reports it."""
        return self._used

    def heard(self, node: ManagedNode | None) -> None:
        """Read the turn from our ManagedNode; a turn that was taken away is over."""
        found = turns.turn_of(node) if node is not None else None
        found = found if found is None or found.run != self._used else None
        if found is not None and found != self._turn:
            self._pass_now()
        self._turn = found

    def begin(self) -> GrantedRepair | None:
        """Return the turn with which a pass begins; None = we have none, or are too late for it."""
        turn = self._turn
        if turn is not None and self._now() >= turn.until:
            if not (self._lasts and turn == self._begun):
                log.warning("the turn for ConfigSet %s ran out before it could be used", turn.config_set)
                self.over(turn)
            return None
        self._begun = turn
        return turn

    def passed(self, busy: Collection[str]) -> None:
        """Record the end of a pass, and which ConfigSets still have work in the background.

        A turn lasts until that has ended, too: the next host must not begin before.
        """
        self._lasts = self._begun is not None and self._begun.config_set in busy
        if not self._lasts:
            self.over(self._begun)

    def over(self, turn: GrantedRepair | None) -> None:
        """Record that a turn is over: no more work is done because of it."""
        if turn is not None:
            self._used, self._begun, self._lasts = turn.run, None, False
            if self._turn == turn:
                self._turn = None
