"""What the agent serves on loopback: metrics and health checks."""

from __future__ import annotations

from collections.abc import Callable

from nodemanager import __version__, native
from nodemanager.agent.link.api_reachability import ApiReachability
from nodemanager.agent.passes.progress import PassProgress
from nodemanager.host.inventory.identity import Identity
from nodemanager.runtime import probes
from nodemanager.runtime.manager import Manager
from nodemanager.runtime.metrics import Registry


def routes(manager: Manager, progress: PassProgress, reachability: ApiReachability) -> probes.Routes:
    """Return the checks: whether the agent hangs, whether it is of use."""
    readiness = {"manager": manager.not_ready, "api": reachability.not_ready}
    health = {"reconcile": progress.stuck}  # as the watchdog judges: a long package run is no hang
    return probes.Routes(health=health, readiness=readiness)


def servers(
    metrics: str, checks: str, registry: Registry, checked: probes.Routes, changed: Callable[[], None]
) -> list[probes.ProbeServer]:
    """Return what serves at these addresses; `changed` is told when one begins or ceases to be taken."""
    served = (("metrics", metrics, probes.Routes(metrics=registry)), ("health probes", checks, checked))
    return [
        probes.ProbeServer(name, address, what, on_change=changed)
        for name, text, what in served
        if (address := probes.parse_address(text))
    ]


def tell_build(registry: Registry, identity: Identity) -> None:
    """Publish the version under the name and labels that the Go project's dashboards know."""
    labels = ("version", "git_commit", "build_date", "goarch", "goos")
    family = registry.gauge("nodemanager_build_info", "Version of this program.", labels)
    family.labels(__version__, native.COMMIT, "", identity.arch, identity.system).set(1)
