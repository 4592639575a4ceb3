"""Puts what observes and changes one host together, for one root."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.progress import Progress
from nodemanager.host.apply import Locks, Tools
from nodemanager.host.base import Busy
from nodemanager.host.files.bucket import Bucket, BucketLimits
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import detect, identity
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.observe import Observer
from nodemanager.host.process import environment
from nodemanager.host.process.runs import Runs
from nodemanager.host.state.journal import STATE, Journal
from nodemanager.host.state.state_lock import StateLock


class NoLocks:
    """Locks where there is nobody to share them with."""

    def __init__(self, why: str) -> None:
        self._why = why

    def hold(self, name: str) -> AbstractAsyncContextManager[None]:
        """Refuse: a lock that nobody else sees would be a lie."""
        raise Busy(f"cannot take lock {name}: {self._why}")


@dataclass(frozen=True, slots=True)
class ManagedHost:
    """A host, ready to be looked at and changed."""

    tree: Tree
    identity: Identity
    converger: Converger
    journal: Journal
    bucket: Bucket
    state: str
    """Folder, below the root, for what must survive us."""
    lock: StateLock
    progress: Progress

    def close(self) -> None:
        """Give back what is held open."""
        self.lock.release()
        self.tree.close()


@dataclass(frozen=True, slots=True)
class HostSetup:
    """How to set up a host."""

    root: str = "/"
    hostname: str = ""
    state: str = STATE
    """Folder, below the root, for what must survive us."""
    bucket: str = ""
    """Folder, below the root, for backups of files; empty = in that of the state."""
    backups: BucketLimits = field(default_factory=BucketLimits)
    start_delay: float = 3.0
    """Seconds after which a service that was started is looked at again."""


def assemble(
    options: HostSetup,
    locks: Locks,
    no_wait_locks: Locks | None = None,
    may_act: Callable[[], bool] = lambda: True,
) -> ManagedHost:
    """Return the host below a root, with the tools that it has; `no_wait_locks` are not waited for.

    Nothing is changed while `may_act` says so.
    """
    tree = Tree(options.root)
    who = identity.identify(tree, options.hostname)
    progress = Progress()
    run = progress.timed(environment.host_runner(tree.root))
    packages = detect.package_manager(tree, who, run)
    services = detect.service_manager(tree, who, run, options.start_delay)
    no_wait_services = detect.service_manager(tree, who, run, None)
    lock = StateLock(tree, options.state)
    journal = Journal(tree, options.state)
    bucket = Bucket(tree, options.bucket or f"{options.state}/filebucket", options.backups)
    runs = Runs(tree, journal, run, f"{options.state}/runs")
    tools = Tools(packages, services, runs, journal, locks, progress.tick)
    observer = Observer(tree, packages, services, run)
    converger = Converger(observer, tools, bucket, lock, no_wait_services, no_wait_locks, progress, may_act)
    return ManagedHost(tree, who, converger, journal, bucket, options.state, lock, progress)
