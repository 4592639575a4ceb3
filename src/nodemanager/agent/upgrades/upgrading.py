"""Connects the part that upgrades with its host and API."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from datetime import UTC, datetime

import msgspec

from nodemanager.agent.assembly import ManagedHost
from nodemanager.agent.declared.desired_state import DesiredStateCache
from nodemanager.agent.holds.keeping import HoldKeeper
from nodemanager.agent.link.api_link import ApiLink
from nodemanager.agent.requests import Requests
from nodemanager.agent.tasks.ledger import MAX_BYTES, LedgerFolder
from nodemanager.agent.tasks.task_part import Turn
from nodemanager.agent.tasks.tasking import OwnUpgrades, base_of, performers_of
from nodemanager.agent.upgrades.drain import KubernetesNode
from nodemanager.agent.upgrades.own_task import UpgradeEntry, UpgradeTools
from nodemanager.agent.upgrades.upgrade import UpgradeDependencies, UpgradeSettings
from nodemanager.agent.upgrades.upgrade_part import UpgradePart
from nodemanager.agent.upgrades.upgrade_reporter import UpgradeReporter
from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.timezone import zone_of
from nodemanager.host.state import state_files
from nodemanager.kube.errors import UNREADABLE
from nodemanager.plan.tasks.record import TaskPhase, TaskRecord
from nodemanager.runtime.lease import Clocks

log = logging.getLogger(__name__)


def upgrades(
    managed_host: ManagedHost,
    link: ApiLink,
    requests: Requests,
    states: DesiredStateCache,
    holds: HoldKeeper,
    reporter: UpgradeReporter,
    settings: UpgradeSettings,
    turn: Turn,
) -> UpgradePart:
    """Return the part that upgrades this host; it hears of its ManagedNode, and asks for passes.

    It begins nothing while a task has its turn. It has a tree of its own: it writes its record while a pass
    is at work in the other one.
    """
    key, state = link.key, managed_host.state
    tools = UpgradeTools(
        *performers_of(managed_host, states, requests, holds.may_act),
        base_of(managed_host),
    )
    tree = Tree(managed_host.tree.root)
    ledger = LedgerFolder(tree, f"{state}/upgrades", UpgradeEntry)
    adopt(tree, state, ledger)

    def was_drained() -> bool:
        own = link.nodes.get(key)
        return own is not None and upgrade_tasks.was_drained(own.metadata.annotations)

    dependencies = UpgradeDependencies(
        tools,
        link.locks,
        KubernetesNode(link.client, key.name, str(key), was_drained),
        ledger,
        clocks=Clocks(),
        may_act=holds.may_act,
        in_turn=lambda: turn.is_free,
        tasks=turn.entries,
    )
    part = UpgradePart(
        dependencies,
        lambda: link.nodes.get(key),
        reporter,
        settings=settings,
        zone=functools.partial(zone_of, Tree(managed_host.tree.root)),
        report=lambda _status: requests.status_soon(),  # a pass may take longer than the window of a slot
    )
    link.nodes.subscribe(lambda change: part.changed() if change.key == key else None)
    holds.subscribe(part.changed)
    return part


def for_tasks(part: UpgradePart) -> OwnUpgrades:
    """Return what tasks ask the part that upgrades the host, and what they tell it."""
    return OwnUpgrades(lambda: part.status.busy, part.used_slot, part.changed, part.follow)


class FormerRecord(msgspec.Struct):
    """The relevant parts of a record by an older agent, which kept no tasks for upgrades."""

    slot: datetime | None = None
    group: str = ""


def adopt(tree: Tree, state: str, ledger: LedgerFolder) -> None:
    """End such an upgrade, once: whatever it may hold is given back, and its slot counts as used."""
    path, old = f"{state}/upgrade.json", FormerRecord()
    try:
        if (data := state_files.read(tree, path, MAX_BYTES)) is None:
            return
        with contextlib.suppress(*UNREADABLE):
            old = msgspec.json.decode(data, type=FormerRecord)
        said = "the agent was replaced by a newer one"
        record = TaskRecord("upgrade-0", phase=TaskPhase.EXPIRED, message=said, ended_at=old.slot)
        cordoned = datetime.now(UTC)  # perhaps: it is looked at
        entry = UpgradeEntry(record.uid, NodeTaskSpec(), record, old.slot, old.group, cordoned)
        ledger.entries.setdefault(record.uid, entry)
        ledger.save(ledger.entries[record.uid])
        os.unlink(tree.place(path).name, dir_fd=tree.place(path).folder)
    except OSError as error:  # the next process tries again
        log.warning("cannot take over the upgrade in %s: %s", tree.outside(path), error)
