"""Which tools a host has."""

from __future__ import annotations

from nodemanager.host.base import PackageManager, Runner, ServiceManager
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.packages import choose as packages
from nodemanager.host.services import choose as services


def package_manager(tree: Tree, identity: Identity, run: Runner) -> PackageManager | None:
    """Return the package manager of the host below a root, None if there is none that we know."""
    return packages.package_manager(tree, identity, run)


def service_manager(
    tree: Tree, identity: Identity, run: Runner, start_delay: float | None
) -> ServiceManager | None:
    """Return the service manager of a host; None where there is none that we know."""
    return services.choose(tree, identity, run, start_delay)
