"""Which tools a host has."""

from __future__ import annotations

from nodemanager.host.base import Runner, ServiceManager
from nodemanager.host.identity import Identity
from nodemanager.host.services import choose as services
from nodemanager.host.tree import Tree


def service_manager(tree: Tree, identity: Identity, run: Runner, start_delay: float) -> ServiceManager | None:
    """Return the service manager of a host; None where there is none that we know."""
    return services.choose(tree, identity, run, start_delay)
