"""Steps that replace the program of the agent: the old one begins them, the next one finishes them."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from nodemanager import __version__
from nodemanager.agent.assembly import ManagedHost
from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult, Exclusive, Performer
from nodemanager.api.maintenance.agent_upgrade import AgentUpgradeAction
from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import executable
from nodemanager.host.process.threads import in_thread
from nodemanager.host.self_update import program_file
from nodemanager.host.self_update.records import PROVEN, STRANDED, Outcome
from nodemanager.host.self_update.staging import WantedProgram
from nodemanager.host.self_update.upgrading import DEADLINE, LEAST, PREVIOUS, RESERVE, UpgradeOrder, Upgrader
from nodemanager.kube.go import durations
from nodemanager.tlog.minisign import PublicKey

log = logging.getLogger(__name__)
BEFORE: Final = "versionBefore"
AFTER: Final = "versionAfter"


class ProgramBefore(msgspec.Struct, frozen=True):
    """The program that was there."""

    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class AgentUpgrades(Performer):
    """Replaces the program of the agent for tasks."""

    make: Callable[[], Upgrader]
    """Returns the object that replaces it; raises HostError if this host does not allow that."""
    keys: Callable[[], list[PublicKey]]
    """Returns whose signatures this host accepts; none = it has not said."""
    system: str
    """linux or freebsd."""
    reaches_api: Callable[[], bool]
    exclusive: Exclusive
    version: str = __version__
    """The running version."""

    async def prepare(self, action: AgentUpgradeAction) -> bytes:
        """Return what is there; refuses where it cannot be replaced."""
        del action
        upgrader = self.make()
        await upgrader.check()
        digest = await in_thread(lambda: program_file.sha256_of(upgrader.program))
        return msgspec.json.encode(ProgramBefore(self.version, digest))

    async def perform(self, action: AgentUpgradeAction, attempt: Attempt) -> AttemptResult:
        """Have the guard replace the program, which ends this process; the next one settles it."""
        upgrader, before = self.make(), msgspec.json.decode(attempt.known.inverse, type=ProgramBefore)
        wanted = self._wanted(action, f"{self.system}-{upgrader.stager.arch}")
        if self.version == action.version and wanted.sha256 in ("", before.sha256):
            evidence = {BEFORE: self.version, AFTER: self.version}
            return AttemptResult(succeeded=True, output="it is this version already\n", evidence=evidence)
        deadline = durations.parse(action.deadline) if action.deadline else DEADLINE
        return await self._upgrade(upgrader, wanted, attempt, max(deadline, LEAST))

    async def settle(self, action: AgentUpgradeAction, attempt: Attempt) -> AttemptResult:
        """Tell how it ended, as the guard has written down; if it never began, it begins now."""
        found = await self._ended(self.make(), attempt)
        if found is not None:
            return found
        return INTERRUPTED if attempt.barred else await self.perform(action, attempt)

    async def take_back(self, action: AgentUpgradeAction, attempt: Attempt) -> AttemptResult:
        """Have the guard bring back the program that was there, which has to prove itself, too."""
        del action
        upgrader, before = self.make(), msgspec.json.decode(attempt.known.inverse, type=ProgramBefore)
        ended = await self._ended(upgrader, attempt)
        if await in_thread(lambda: program_file.sha256_of(upgrader.program)) == before.sha256:
            return AttemptResult(succeeded=True)
        if ended is not None:
            return ended
        wanted = WantedProgram(upgrader.program + PREVIOUS, before.version, before.sha256)
        return await self._upgrade(upgrader, wanted, attempt, DEADLINE)

    async def _upgrade(
        self, upgrader: Upgrader, wanted: WantedProgram, attempt: Attempt, deadline: float
    ) -> AttemptResult:
        order = UpgradeOrder(identity(attempt), wanted, self.version, self.reaches_api(), deadline)
        async with contextlib.AsyncExitStack() as stack:
            # A pass would be broken off in the middle; none waits for a server that is slow.
            intent = await upgrader.upgrade(order, lambda: stack.enter_async_context(self.exclusive()))
            log.info("the program becomes %s now, and this agent ends", intent.after)
            found = await self._ended(upgrader, attempt)
        return found or INTERRUPTED

    async def _ended(self, upgrader: Upgrader, attempt: Attempt) -> AttemptResult | None:
        """Wait for the end of an upgrade that has begun; None = it has not."""
        pending = upgrader.records.pending()
        if pending is not None and pending.id == identity(attempt):
            with contextlib.suppress(HostError):  # who began it may have ended before the guard was started
                await upgrader.guard.wake()
        seconds = pending.seconds + 2 * RESERVE if pending else 0.0
        ended = await upgrader.ended(identity(attempt), seconds)
        return None if ended is None else _told(attempt, ended, self.version)

    def _wanted(self, action: AgentUpgradeAction, target: str) -> WantedProgram:
        digest, keys = action.sha256.get(target, ""), self.keys()
        if action.unsigned and keys:
            raise HostError(
                "cannot take an unsigned program: this host accepts signed ones only, as its release.pub says"
            )
        if not action.unsigned and not keys:
            raise HostError(
                "cannot tell whose program it is: this host has no release.pub with keys that it trusts; put"
                " it there, or say unsigned, with sha256"
            )
        if action.unsigned and not digest:
            raise HostError(f"cannot take an unsigned program for {target}: sha256 has no entry for it")
        source = action.url.replace("{version}", action.version).replace("{target}", target)
        return WantedProgram(source, action.version, digest, keys)


def of_host(host: ManagedHost, reaches_api: Callable[[], bool], exclusive: Exclusive) -> AgentUpgrades:
    """Return what replaces the program that we are."""
    # Not the tree of passes: descriptors are not shared.
    tree, run, manager = Tree(host.tree.root), host.converger.observer.run, host.converger.tools.services

    def make() -> Upgrader:
        from nodemanager.host.self_update import assembly  # here: an agent at rest has no use for it

        return assembly.upgrader(tree, host.state, executable.own_path(), manager, run)

    def keys() -> list[PublicKey]:
        from nodemanager.host.self_update import assembly, trust

        return trust.trusted(trust.path_of(assembly.init_of(tree)))

    return AgentUpgrades(make, keys, host.identity.system, reaches_api, exclusive)


def identity(attempt: Attempt) -> str:
    """Return what no upgrade of another try is called."""
    return hashlib.sha256(attempt.key.encode()).hexdigest()[:16]


def _told(attempt: Attempt, ended: Outcome, version: str) -> AttemptResult:
    good, inverse = ended.result == PROVEN, attempt.known.inverse
    before = msgspec.json.decode(inverse, type=ProgramBefore).version if inverse else ""
    stranded = ended.result == STRANDED
    said = "" if good else ended.message if stranded else f"{ended.message}; {version} is back"
    return AttemptResult(good, said, changed=good or stranded, evidence={BEFORE: before, AFTER: version})
