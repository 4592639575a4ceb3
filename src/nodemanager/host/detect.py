"""Which tools this host has."""

from __future__ import annotations

from nodemanager.host.base import PackageManager, Runner, ServiceManager
from nodemanager.host.identity import Identity
from nodemanager.host.tree import Tree


def package_manager(tree: Tree, identity: Identity, run: Runner) -> PackageManager | None:
    """Return the package manager of a host, if it has one that we know."""
    del tree, identity, run
    return None


def service_manager(tree: Tree, identity: Identity, run: Runner, start_delay: float) -> ServiceManager | None:
    """Return the service manager of a host, if it has one that we know."""
    del tree, identity, run, start_delay
    return None
