"""Which tools a host has."""

from __future__ import annotations

from nodemanager.host.base import PackageManager, Runner
from nodemanager.host.identity import Identity
from nodemanager.host.packages import choose
from nodemanager.host.tree import Tree


def package_manager(tree: Tree, identity: Identity, run: Runner) -> PackageManager | None:
    """Return the package manager of the host below a root, None if there is none that we know."""
    return choose.package_manager(tree, identity, run)
