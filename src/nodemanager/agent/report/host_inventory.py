"""What is observed of a host itself: its ManagedNode shows it in the status, where templates read it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from nodemanager import __version__
from nodemanager.api.common.managednode import (
    HostOperatingSystem,
    Interface,
    ManagedNode,
    ManagedNodeStatus,
    SSHHostKey,
    WireGuardStatus,
)
from nodemanager.host.base import Runner
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import network, ssh_keys, wireguard
from nodemanager.host.inventory.identity import Identity, read_release

MAX_WORD, MAX_LINE = 64, 256
"""The longest text that the API accepts: an os-release may contain anything, and must not block the status.
"""


@dataclass(frozen=True, slots=True)
class HostInventory:
    """The observed facts about the host."""

    agent_version: str = ""
    os: HostOperatingSystem = field(default_factory=HostOperatingSystem)
    interfaces: Mapping[str, Interface] = field(default_factory=dict)
    ssh_host_keys: Sequence[SSHHostKey] = ()
    wire_guard: Sequence[WireGuardStatus] = ()
    jailed: bool = False


async def inventory(tree: Tree, identity: Identity, run: Runner) -> HostInventory:
    """Return what is seen of a host without asking anybody else."""
    alive = tree.running
    return HostInventory(
        agent_version=__version__,
        os=operating_system(tree, identity),
        interfaces=await network.interfaces(run) if alive else {},
        ssh_host_keys=ssh_keys.host_keys(tree),
        wire_guard=await wireguard.interfaces(run) if alive else [],
    )


def operating_system(tree: Tree, identity: Identity) -> HostOperatingSystem:
    """Return what runs here; read anew, as an upgrade changes it while we are running."""
    release, kernel = read_release(tree), identity.kernel
    named = release.get("PRETTY_NAME") or f"{identity.system} {kernel}"
    return HostOperatingSystem(
        id=identity.os_id[:MAX_WORD], version=release.get("VERSION_ID", "")[:MAX_WORD],
        pretty_name=named[:MAX_LINE], kernel=kernel[:MAX_LINE],
    )  # fmt: skip


async def as_reported(node: ManagedNode, root: str, identity: Identity, run: Runner) -> ManagedNode:
    """Return a ManagedNode with the status that an agent would report; what it says already, stays."""
    with contextlib.closing(Tree(root)) as tree:  # its own: others may work in theirs
        seen = await inventory(tree, identity, run)
    return msgspec.structs.replace(node, status=filled(node.status, seen))


def filled(status: ManagedNodeStatus, inventory: HostInventory) -> ManagedNodeStatus:
    """Return the status with what was seen of the host wherever it says nothing."""
    return msgspec.structs.replace(
        status,
        agent_version=status.agent_version or inventory.agent_version,
        release=status.release or inventory.os.kernel,
        os=status.os if status.os is not None else inventory.os,
        interfaces=status.interfaces or dict(inventory.interfaces),
        ssh_host_keys=status.ssh_host_keys or list(inventory.ssh_host_keys),
        wire_guard=status.wire_guard or list(inventory.wire_guard),
    )
