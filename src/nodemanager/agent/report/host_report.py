"""What passes and repairs contribute to the status, and what of it the API does not know yet."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from nodemanager.agent.declared.memory import InputsMemory
from nodemanager.agent.drift.drift_log import DriftLog
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.host_state import HostState
from nodemanager.agent.report import status
from nodemanager.agent.report.status import Pass
from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import Drift, ManagedNode, ManagedNodeStatus
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import conditions

log = logging.getLogger(__name__)


@dataclass(slots=True)
class HostReport:
    """Keeps the subject of the last pass; its results are read when the status is written."""

    host_state: HostState
    drifts: DriftLog
    converger: Converger
    memory: InputsMemory
    _last: Pass | None = None
    """The subject of the last pass; None = no pass is over yet."""
    _generation: int = 0
    """The generation of the ManagedNode when the last pass began; the next pass reports a newer one."""
    _broken: str = ""
    """Why the last pass was aborted; empty = it was not."""
    _crowded: bool = False
    """Whether it was logged that there are more backups than the status can show."""
    _first_told: datetime | None = None
    """When a user of this host first asked after the last pass: changes of that pass are not newer."""

    @property
    def over(self) -> bool:
        """Whether there was a whole pass, so that everything can be told."""
        return self._last is not None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to say yet."""
        nothing = not self.over and not self._broken and not self.converger.underway.said
        return nothing and self.drifts.known() is None

    @property
    def generation(self) -> int:
        """The generation of the ManagedNode that all this is about."""
        return self._generation

    # What happens

    def passed(self, done: Pass, generation: int) -> None:
        """Take note of a pass, and of the generation of the ManagedNode that it was for."""
        untold = self._last.collection if self._last else None
        self._last = replace(done, collection=done.collection or untold)
        self._generation, self._broken, self._first_told = generation, "", None

    def broke_off(self, why: str, generation: int) -> None:
        """Take note that a pass was broken off: what the status says of the host may not be so any more."""
        self._generation, self._broken = generation, why

    def adopt(self, known: Drift | None) -> None:
        """Learn, once, which drifts the API has been told of."""
        if not self.drifts.adopted:
            self.drifts.adopt(known)

    # What is said

    def now(self) -> Pass | None:
        """Return everything that is to be told now; None = no pass is over yet."""
        host_state, last = self.host_state, self._last
        if last is None:
            return None
        return replace(
            last,
            results=self._results(),
            drift=self.drifts.known(),
            backups=self._backups(),
            declared=self._paths,
            contested=host_state.backoff.contested(),
            shortfalls=host_state.shortfalls,
            under_way=self.converger.underway.said,
        )

    def _results(self) -> list[Result]:
        """Return what became of everything; of a long pass that is under way, what it did so far is newer."""
        known, underway = self.host_state.results, self.converger.underway
        if underway.said:
            new = {one: result for one, result in underway.results.items() if result.bad or one in known}
            known = {**known, **new}
        return [one for one in known.values() if one.outcome is not ResourceOutcome.UNCHANGED]

    def contribute(self, found: ManagedNodeStatus, done: Pass | None, now: datetime) -> ManagedNodeStatus:
        """Return the status with what is to be told; before the first pass, that is about drifts alone."""
        if done is None:
            found = msgspec.structs.replace(found, drift=self.drifts.known() or found.drift)
            if at := self.converger.underway.said:
                for type_ in (conditions.READY, node_conditions.PROGRESSING):
                    found = status.of_condition(found, status.applying(at, type_), now, self._generation)
        else:
            found = status.of_pass(found, done, now, self._generation)
        return self._if_broken(found, now)

    def written(self, before: ManagedNodeStatus, done: Pass | None) -> None:
        """Take note that the API has acknowledged this report; what happened since is still to be told."""
        if done is None:
            return
        self._say_crowded(status.untold_backups(before, done))
        self.memory.settle()
        self._forget_backups(done)
        self.host_state.told(done.results)
        if self._last is not None and self._last.collection is done.collection:
            self._last = replace(self._last, collection=None)

    def keep(self) -> None:
        """Put on disk what the API cannot be told now and nobody could see again: where backups are."""
        backups = self._backups()
        self._say_crowded(self.memory.owe(backups, self._paths))
        self._forget_backups(Pass((), {}, (), None, backups=backups))

    def local(self, known: ManagedNode | None, now: datetime) -> ManagedNodeStatus:
        """Return how the host stands as far as we know, whether or not the API could be told."""
        done = self.now()
        if done is None:
            return ManagedNodeStatus()
        node = known or self.memory.node or ManagedNode()
        self._first_told = self._first_told or now
        return self.contribute(node.status, done, self._first_told)

    def _if_broken(self, found: ManagedNodeStatus, now: datetime) -> ManagedNodeStatus:
        if not self._broken:
            return found
        said = f"the last pass was broken off: {self._broken}"
        return status.of_condition(found, status.not_ready(said), now, self._generation)

    def _backups(self) -> dict[str, str]:
        """Return where the former content of files is that no status tells of yet; the first one counts."""
        return {**self.converger.records.replaced, **self.memory.owed}

    def _forget_backups(self, done: Pass) -> None:
        replaced = self.converger.records.replaced
        for path, digest in done.backups.items():
            if replaced.get(path) == digest:
                del replaced[path]

    @property
    def _paths(self) -> frozenset[str]:
        """The files that are declared."""
        return self.host_state.desired_state.paths if self.host_state.desired_state else frozenset()

    def _say_crowded(self, untold: int) -> None:
        """Say, once, that a status has no room for so many backups."""
        if untold and not self._crowded:
            log.warning(
                "the status has no room for all backups: %d are not in it, most of them of what nobody"
                " declares; nodemanager backups has them all", untold,
            )  # fmt: skip
        self._crowded = self._crowded or untold > 0
