"""Rolls up what the hosts report about each ConfigSet into the status of the ConfigSet.

    ManagedNode.status.configsets of all hosts  ->  ConfigSet.status.nodes and conditions
    what the set itself declares                ->  its condition Invalid (see `validity`)

There is one writer instead of one per host, because hosts would overwrite each other's condition.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from nodemanager.api.common import enforcement, matching, node_conditions, set_reports
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetStatus, NodeCounts
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, is_held, is_silent
from nodemanager.client.subresources import write_status
from nodemanager.client.verbs import Client
from nodemanager.controllers.configsets.validity import Validity
from nodemanager.controllers.registration import Caches, ControllerContext, Wake
from nodemanager.kube import conditions, errors, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.kube.wording import listed, plural
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile, ReconcileResult, Retry

SETTLE_SECONDS = 0.5
"""Hosts report at about the same time, so their reports are counted together."""
STATUS_SECONDS = 30.0
"""A change of only a set's status was ours, or by a writer with whom we do not race (agents of the Go project
write a condition of their own, and would answer at network speed)."""
COUNTS_SECONDS = 2.0
"""Counts and names of hosts are written at most this often, as all agents read each write, with the whole
set. Conditions such as Ready, which a user may wait for, are written at once."""
MAX_WAYS = 1024
"""Most characters about how hosts are chosen, as in the schema."""
MAX_NAMED = 5
"""How many hosts a message names before it only counts."""


class ConfigSetRollup:
    """Keeps `status` of every ConfigSet equal to the reports of the hosts."""

    def __init__(
        self,
        client: Client,
        config_sets: Cache[ConfigSet],
        nodes: Cache[ManagedNode],
        validity: Validity,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._config_sets = config_sets
        self._nodes = nodes
        self._validity = validity
        self._now = now
        self._written: dict[ObjectKey, float] = {}
        """When a status was written last, by the monotonic clock."""

    async def reconcile(self, key: ObjectKey) -> ReconcileResult | None:
        """Count, and write the status if it changed."""
        config_set = self._config_sets.get(key)
        if config_set is None or config_set.metadata.deletion_timestamp:
            self._written.pop(key, None)
            return None
        judged = await self._validity.condition(config_set)
        nodes = [node for node in self._nodes.values() if node.metadata.namespace == key.namespace]
        wanted = summarise(config_set, nodes, times.rfc3339(self._now()), judged)
        clock = asyncio.get_running_loop().time()
        quiet = self._written.get(key, -math.inf) + COUNTS_SECONDS - clock
        if quiet > 0 and wanted != config_set.status and _is_only_counted(config_set.status, wanted):
            return ReconcileResult(quiet)
        try:
            if await write_status(self._client, CONFIG_SETS, config_set, config_set.status, wanted):
                self._written[key] = clock
        except errors.Conflict:  # such as the rollout, a part of the status that another controller writes
            raise Retry(SETTLE_SECONDS, "somebody else wrote the status meanwhile") from None
        return None


def build(context: ControllerContext) -> Reconcile:
    """Return the reconcile of the roll-up."""
    caches = context.caches
    return ConfigSetRollup(
        context.client,
        caches.of(CONFIG_SETS),
        caches.of(MANAGED_NODES),
        Validity(context.renderer),
        context.now,
    ).reconcile


def on_config_set(change: Change[ConfigSet], _caches: Caches) -> Iterator[Wake]:
    """Wake a set at once for its spec, and after a while for its status."""
    if change.new is None:
        return
    same = change.old is not None and _declares_the_same(change.old, change.new)
    yield Wake(change.key, STATUS_SECONDS if same else 0.0)


def on_node(change: Change[ManagedNode], caches: Caches) -> Iterator[Wake]:
    """Wake the sets whose counts a host may change."""
    for key in affected(change, caches.of(CONFIG_SETS).values()):
        yield Wake(key, SETTLE_SECONDS)


def _declares_the_same(one: ConfigSet, other: ConfigSet) -> bool:
    return (one.metadata.generation, one.metadata.labels) == (
        other.metadata.generation,
        other.metadata.labels,
    )


def affected(change: Change[ManagedNode], config_sets: Iterable[ConfigSet]) -> list[ObjectKey]:
    """Return the ConfigSets whose counts a change of a host may change."""
    states = [node for node in (change.old, change.new) if node is not None]
    reported = {entry.name for node in states for entry in node.status.configsets}
    if not states:  # a set that could never be read
        return []
    moved = len(states) == 1 or _counted_as(states[0]) != _counted_as(states[1])
    return [
        key_of(config_set)
        for config_set in config_sets
        if config_set.metadata.namespace == change.key.namespace
        and (config_set.metadata.name in reported or moved)
    ]


def _counted_as(node: ManagedNode) -> tuple[dict[str, str], bool, bool]:
    """Return what decides, besides its reports, for which sets a host counts, and how."""
    return node.metadata.labels, is_silent(node), is_held(node)


def summarise(
    config_set: ConfigSet, nodes: Iterable[ManagedNode], now: str, *judged: Condition
) -> ConfigSetStatus:
    """Return the status that follows from what the hosts report; pure."""
    generation = config_set.metadata.generation
    matched = [node for node in nodes if matching.matches(config_set, node.metadata.labels)]
    hosts = _Hosts.of(config_set, sorted(matched, key=lambda node: node.metadata.name))
    counts = NodeCounts(
        matched=len(matched),
        applied=len(hosts.applied),
        failed=len(hosts.failed),
        unknown=len(hosts.silent),
        held=len(hosts.held),
        conflicted=len(hosts.conflicted),
    )
    found = list(config_set.status.conditions)
    for condition in (_ready(hosts, generation), _conflicted(hosts.conflicted, generation), *judged):
        found = conditions.set_condition(found, condition, now)
    return ConfigSetStatus(
        observed_generation=generation,
        chosen_by=_shortened(" OR ".join(matching.ways(config_set))),
        nodes=counts,
        rollout=config_set.status.rollout,
        conditions=found,
    )


def _is_only_counted(old: ConfigSetStatus, new: ConfigSetStatus) -> bool:
    """Tell whether two statuses differ only in the numbers and names of hosts."""
    said = [
        (
            one.observed_generation,
            one.chosen_by,
            [(each.type, each.status, each.reason) for each in one.conditions],
        )
        for one in (old, new)
    ]
    return said[0] == said[1]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_WAYS else f"{text[: MAX_WAYS - 3]}..."


@dataclass(frozen=True, slots=True)
class _Hosts:
    """The names of the hosts of a set, by how it went there."""

    applied: list[str]
    failed: list[str]
    conflicted: list[str]
    waiting: list[str]
    """Hosts that have not applied all of it yet, or cannot because of a conflict."""
    silent: list[str]
    """Silent hosts, whose earlier reports do not count any more."""
    held: list[str]
    """Hosts on which it waits for the end of a hold, even if something else is wrong there."""
    shut: list[str]
    """Hosts on which it waits for its window to open."""

    @classmethod
    def of(cls, config_set: ConfigSet, nodes: Sequence[ManagedNode]) -> _Hosts:
        found = cls([], [], [], [], [], [], [])
        for node in nodes:
            name, report = node.metadata.name, set_reports.report_of(node, config_set.metadata.name)
            if is_silent(node):
                found.silent.append(name)
                continue
            if report and report.conflicts:
                found.conflicted.append(name)
            holds = report is not None and set_reports.holds(report, config_set.metadata.generation)
            if not holds and is_held(node):
                found.held.append(name)
                continue
            if report and report.error:
                found.failed.append(name)
            elif report and report.waiting == enforcement.WAITS:
                found.shut.append(name)
                continue
            (found.applied if holds else found.waiting).append(name)
        return found


def _ready(hosts: _Hosts, generation: int) -> Condition:
    if hosts.failed:
        status, reason, message = conditions.FALSE, "ApplyFailed", f"failed on {_named(hosts.failed)}"
    elif hosts.silent:
        said = f"no sign of life of {_named(hosts.silent)}"
        status, reason, message = conditions.UNKNOWN, "HostsSilent", said
    elif hosts.waiting:
        said = f"not applied on {_named(hosts.waiting)} yet"
        status, reason, message = conditions.FALSE, "Applying", said
    elif hosts.held:
        said = f"waits for the end of a hold on {_named(hosts.held)}"
        status, reason, message = conditions.FALSE, "HostsHeld", said
    elif hosts.shut:
        said = f"waits for its window to open on {_named(hosts.shut)}"
        status, reason, message = conditions.FALSE, "WindowClosed", said
    elif hosts.applied:
        said = f"applied on {plural(len(hosts.applied), 'host')}"
        status, reason, message = conditions.TRUE, "Applied", said
    else:
        status, reason, message = conditions.UNKNOWN, "NoHost", "no host matches its labels or nodeSelector"
    if hosts.held and reason != "HostsHeld":
        message += f"; held: {_named(hosts.held)}"
    return Condition(
        type=conditions.READY, status=status, reason=reason, message=message, observed_generation=generation
    )


def _conflicted(hosts: list[str], generation: int) -> Condition:
    return Condition(
        type=node_conditions.CONFLICTED,
        status=conditions.TRUE if hosts else conditions.FALSE,
        reason=node_conditions.RESOURCE_CONFLICT if hosts else node_conditions.NO_CONFLICT,
        message=f"another ConfigSet says otherwise on {_named(hosts)}" if hosts else "",
        observed_generation=generation,
    )


def _named(hosts: list[str]) -> str:
    return listed(hosts, MAX_NAMED)
