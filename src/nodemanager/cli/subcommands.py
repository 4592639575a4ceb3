"""Which subcommands there are, and how the help lists them.

To add one, write `commands/ROOM/NAME.py` with a click command called `command`, give it a line in
`COMMANDS`, and its name a place in `GROUPS`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Lazy(NamedTuple):
    """A subcommand, imported when it is used: its module, which has it as `command`, and its line of help."""

    module: str
    help: str


COMMANDS: Final = {
    "get": Lazy("nodemanager.cli.commands.cluster.get", "List hosts and ConfigSets, or watch them change."),
    "describe": Lazy("nodemanager.cli.commands.cluster.describe", "Tell all about one host or ConfigSet."),
    "operator": Lazy("nodemanager.cli.commands.running.operator", "Decide what concerns more than one host."),
    "agent": Lazy(
        "nodemanager.cli.commands.running.agent", "Make this host what its ConfigSets say, and keep it so."
    ),
    "health": Lazy("nodemanager.cli.commands.health.health", "Tell how everything is, on one screen."),
    "status": Lazy(
        "nodemanager.cli.commands.host.status", "Tell how this host is doing, as its agent sees it."
    ),
    "hold": Lazy("nodemanager.cli.commands.host.hold", "Keep a host as it is for a while."),
    "unhold": Lazy("nodemanager.cli.commands.host.unhold", "Let a host that is held go on."),
    "maintenance": Lazy(
        "nodemanager.cli.commands.maintenance.group", "Look at maintenances; say yes, wait, go on or stop."
    ),
    "rollout": Lazy(
        "nodemanager.cli.commands.rollout.group", "See how changes reach hosts; wait, go on, or take back."
    ),
    "audit": Lazy(
        "nodemanager.cli.commands.audit.group", "See who did what, when, and prove the log unaltered."
    ),
    "edge": Lazy("nodemanager.cli.commands.edge.group", "Profiles of edge sites: see, sign, observe."),
    "run": Lazy("nodemanager.cli.commands.maintenance.run", "Do something once on some hosts, and watch."),
    "why": Lazy("nodemanager.cli.commands.maintenance.why", "Tell why a host waits, and what ends that."),
    "data": Lazy(
        "nodemanager.cli.commands.cluster.data", "Show the data of a host, and which layer says so."
    ),
    "plan": Lazy("nodemanager.cli.commands.host.plan", "Show what would change on this host."),
    "lint": Lazy("nodemanager.cli.commands.lint", "Find mistakes in manifests before they reach hosts."),
    "simulate": Lazy(
        "nodemanager.cli.commands.maintenance.simulate", "See what a maintenance would do to a fleet."
    ),
    "apply": Lazy(
        "nodemanager.cli.commands.host.apply", "Make this host what manifests say, without an API."
    ),
    "backups": Lazy("nodemanager.cli.commands.host.backups", "List what files contained before."),
    "restore": Lazy("nodemanager.cli.commands.host.restore", "Put back what a file contained."),
    "orphans": Lazy("nodemanager.cli.commands.pruning.orphans", "List what is left behind of ConfigSets."),
    "abandon": Lazy(
        "nodemanager.cli.commands.pruning.abandon", "Let ConfigSets go without waiting for hosts."
    ),
    "server": Lazy("nodemanager.cli.commands.running.server", "Serve a Kubernetes API without a cluster."),
    "up": Lazy(
        "nodemanager.cli.commands.running.up", "Run everything in one process, with a cluster or without."
    ),
    "demo": Lazy("nodemanager.cli.commands.running.demo", "See in a few seconds what this is about."),
    "rbac": Lazy("nodemanager.cli.commands.cluster.rbac", "Print what lets a host in."),
    "token": Lazy("nodemanager.cli.commands.cluster.token", "Print a short-lived credential for a new host."),
    "bootstrap": Lazy("nodemanager.cli.commands.host.bootstrap", "Fetch this host's own credential."),
    "install-service": Lazy(
        "nodemanager.cli.commands.host.install_service", "Have this host start the agent, operator or server."
    ),
    "upgrade-agent": Lazy(
        "nodemanager.cli.commands.host.upgrade_agent", "Replace the agent of this host, or keep the old one."
    ),
    "crds": Lazy("nodemanager.cli.commands.cluster.crds", "Print, install or uninstall our kinds."),
    "schemas": Lazy(
        "nodemanager.cli.commands.cluster.schemas", "Print JSON schemas of our kinds, for editors."
    ),
    "completion": Lazy("nodemanager.cli.commands.completion", "Print the completion script of a shell."),
    "version": Lazy("nodemanager.cli.commands.version", "Print the version."),
}


GROUPS: Final = {
    "Run": ("demo", "up", "agent", "operator", "install-service", "upgrade-agent"),
    "Join": ("rbac", "token", "bootstrap"),
    "Look": (
        "get",
        "describe",
        "health",
        "status",
        "why",
        "audit",
        "data",
        "plan",
        "lint",
        "simulate",
        "edge",
        "schemas",
        "backups",
        "orphans",
    ),
    "Change": ("apply", "run", "maintenance", "rollout", "hold", "unhold", "restore", "abandon"),
    "Serve": ("server", "crds"),
}
"""How the help lists the commands; those that are in none come last."""
OPTIONAL: Final = ("aiohttp", "cryptography", "jwt", "nodemanager.server", "nodemanager.store")
"""Packages that only the embedded API needs; a host does without them."""
EMBEDDED: Final = ("demo", "up", "server")
"""Commands that need the embedded API: the programs for hosts, and their packages, are without."""
