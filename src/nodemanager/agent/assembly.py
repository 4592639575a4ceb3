"""Builds the tools that observe and change one host, for one root."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from nodemanager.agent.passes.background import Background
from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.host_records import HostRecords
from nodemanager.agent.passes.no_wait import NoWait
from nodemanager.agent.passes.progress import PassProgress
from nodemanager.agent.passes.restraints import Restraints
from nodemanager.agent.passes.underway import Underway
from nodemanager.host.apply import Locks, Tools
from nodemanager.host.base import Busy
from nodemanager.host.files.bucket import Bucket, BucketLimits
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import identity
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.observe import Observer
from nodemanager.host.packages import choose as choose_packages
from nodemanager.host.process import environment
from nodemanager.host.process.runs import Runs
from nodemanager.host.services import choose as choose_services
from nodemanager.host.state.journal import STATE, Journal
from nodemanager.host.state.ownership_ledger import OwnershipLedger
from nodemanager.host.state.state_lock import StateLock
from nodemanager.host.state.vault import Vault


class NoLocks:
    """Locks for a host that shares them with no other."""

    def __init__(self, why: str) -> None:
        self._why = why

    def hold(self, name: str) -> AbstractAsyncContextManager[None]:
        """Refuse: a lock that no other host can see would be no lock."""
        raise Busy(f"cannot take lock {name}: {self._why}")


@dataclass(frozen=True, slots=True)
class ManagedHost:
    """A host that is ready to be observed and changed."""

    tree: Tree
    identity: Identity
    converger: Converger
    journal: Journal
    bucket: Bucket
    state: str
    """The folder, below the root, for files that must survive the agent."""
    lock: StateLock
    progress: PassProgress
    ledger: OwnershipLedger
    records: tuple[Tree, ...] = ()
    """The same host again, for code that keeps records while other code changes files: descriptors are not
    shared."""

    def close(self) -> None:
        """Release what is held open."""
        self.lock.release()
        self.ledger.close()
        for one in (self.tree, *self.records):
            one.close()


@dataclass(frozen=True, slots=True)
class HostSetup:
    """How to set up a host."""

    root: str = "/"
    hostname: str = ""
    state: str = STATE
    """The folder, below the root, for files that must survive the agent."""
    bucket: str = ""
    """The folder, below the root, for backups of files; empty = inside the folder of the state."""
    backups: BucketLimits = field(default_factory=BucketLimits)
    start_delay: float = 3.0
    """After so many seconds, a service that was started is looked at again."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the host should have besides those that describe it."""


def _nobody() -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class PassSetup:
    """How passes follow each other."""

    patience: float | None = None
    """Seconds that a pass waits for executions before it ends without them; None = until they end."""
    ended: Callable[[], None] = _nobody
    """Asks for a pass because executions ended for which no pass waited."""
    long: Callable[[], None] = _nobody
    """Called when a pass that changes the host takes longer than a moment."""
    may_act: Callable[[], bool] = lambda: True
    """While it returns no, the host is not changed."""
    shut: Callable[[], AbstractSet[str]] = frozenset[str]
    """ConfigSets whose resources are not changed now."""


def assemble(
    options: HostSetup, locks: Locks, no_wait_locks: Locks | None = None, passes: PassSetup | None = None
) -> ManagedHost:
    """Return the host below a root, with the tools that it has; `no_wait_locks` are not waited for.

    Without `passes` there is only one, which waits for everything.
    """
    tree = Tree(options.root)
    who = identity.identify(tree, options.hostname)
    progress = PassProgress()
    run = progress.timed(environment.host_runner(tree.root))
    packages = choose_packages.package_manager(tree, who, run)
    services = choose_services.choose(tree, who, run, options.start_delay)
    no_wait_services = choose_services.choose(tree, who, run, None)
    lock = StateLock(tree, options.state)
    records = Tree(options.root), Tree(options.root)
    journal = Journal(records[0], options.state)
    ledger = OwnershipLedger(Vault(options.root, options.state))
    bucket = Bucket(
        tree, options.bucket or f"{options.state}/filebucket", options.backups,
        pinned=lambda: ledger.backups,
    )  # fmt: skip
    runs = Runs(records[1], journal, run, f"{options.state}/runs")
    tools = Tools(packages, services, runs, journal, locks, progress.tick)
    observer = Observer(tree, packages, services, run)
    passes = passes or PassSetup()
    converger = Converger(
        observer, tools, HostRecords(bucket, lock, ledger), NoWait(no_wait_services, no_wait_locks),
        progress, Restraints(passes.may_act, passes.shut),
        background=Background(passes.ended, passes.patience), underway=Underway(passes.long),
    )  # fmt: skip
    return ManagedHost(tree, who, converger, journal, bucket, options.state, lock, progress, ledger, records)
