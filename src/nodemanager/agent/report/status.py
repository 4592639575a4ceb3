"""Makes the status of a ManagedNode from observations and results. Pure: without changes it stays equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodemanager.agent.drift.repair_backoff import ContestedResource
from nodemanager.agent.report import backup_records
from nodemanager.agent.report.host_inventory import HostInventory
from nodemanager.agent.upgrades.upgrade_reporter import UpgradeStatus
from nodemanager.api.common import choosing, enforcement, node_conditions
from nodemanager.api.common.choosing import ChangeWait
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import (
    AppliedConfigSet,
    Drift,
    Heartbeat,
    ManagedNodeStatus,
)
from nodemanager.api.common.node_upgrades import UpcomingUpgrades
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import conditions, times, wording
from nodemanager.kube.conditions import Condition

REFRESH: Final = timedelta(hours=1)
"""How old `lastApplied` may get while nothing changes: fresh enough for people, rare enough for SD cards."""
MAX_ERROR: Final = 4096
MAX_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Collection:
    """The result of the removal of old backups."""

    removed: int
    kept: AbstractSet[str]
    """SHA-256 of the contents that can still be restored."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The subject of a pass over the host, and its results."""

    config_sets: Sequence[ConfigSet]
    conflicts: Mapping[str, Sequence[str]]
    results: Sequence[Result]
    drift: Drift | None
    """The known drifts; None = there never was one."""
    backups: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the contents of managed files before we first replaced them, by path."""
    collection: Collection | None = None
    """How old backups were removed, if they were."""
    contested: Sequence[ContestedResource] = ()
    """Resources that another program keeps changing."""
    shortfalls: Sequence[str] | None = None
    """What is not watched, as text; None = everything is."""
    declared: AbstractSet[str] = frozenset()
    """Paths of the files that are declared."""
    under_way: str = ""
    """The progress of a long pass; empty = none is running."""
    waits: Mapping[str, ChangeWait] = field(default_factory=dict)
    """Why sets do not have the revision that they should have, by name."""


def of_host(
    old: ManagedNodeStatus, inventory: HostInventory, lease: str, generation: int
) -> ManagedNodeStatus:
    """Return the status with what was seen of the host; what we know nothing about is kept."""
    return msgspec.structs.replace(
        old,
        observed_generation=generation,
        agent_version=inventory.agent_version,
        release=inventory.os.kernel,
        os=inventory.os,
        heartbeat=Heartbeat(lease_name=lease),
        interfaces=dict(inventory.interfaces),
        ssh_host_keys=list(inventory.ssh_host_keys),
        wire_guard=list(inventory.wire_guard),
        jailed=inventory.jailed,
    )


def of_upgrades(old: ManagedNodeStatus, upgrades: UpgradeStatus) -> ManagedNodeStatus:
    """Return the status with what became of upgrades."""
    upcoming = UpcomingUpgrades(list(upgrades.next_slots), upgrades.started, upgrades.asks, upgrades.due)
    return msgspec.structs.replace(
        old,
        last_upgrade=upgrades.last_upgrade,
        kubernetes_node_cordoned=upgrades.kubernetes_node_cordoned,
        upgrade=upcoming if upcoming != UpcomingUpgrades() else None,
    )


def of_duplication(
    old: ManagedNodeStatus, duplicated: bool, now: datetime, generation: int
) -> ManagedNodeStatus:
    """Return the status with whether another machine has our name; nothing is said before one was seen."""
    known = conditions.get(old.conditions, node_conditions.DUPLICATED) is not None
    said = Condition(
        type=node_conditions.DUPLICATED, status=conditions.FALSE, reason=node_conditions.ONE_AGENT
    )
    if duplicated:
        said = Condition(
            type=node_conditions.DUPLICATED, status=conditions.TRUE, reason=node_conditions.OTHER_AGENT,
            message="another machine reports under this name, too; give one of them another name",
        )  # fmt: skip
    return of_condition(old, said, now, generation) if known or duplicated else old


def of_servers(old: ManagedNodeStatus, fault: str, now: datetime, generation: int) -> ManagedNodeStatus:
    """Return the status with why metrics or probes are not served; nothing is said before that was so."""
    known = conditions.get(old.conditions, node_conditions.SERVED) is not None
    said = Condition(type=node_conditions.SERVED, status=conditions.TRUE, reason=node_conditions.LISTENING)
    if fault:
        said = Condition(
            type=node_conditions.SERVED, status=conditions.FALSE, reason=node_conditions.ADDRESS_UNAVAILABLE,
            message=_cut(fault),
        )  # fmt: skip
    return of_condition(old, said, now, generation) if known or fault else old


def of_token(
    old: ManagedNodeStatus, token: Condition | None, now: datetime, generation: int
) -> ManagedNodeStatus:
    """Return the status with what became of the host's own token; None = it uses none."""
    if token is None:
        others = [one for one in old.conditions if one.type != node_conditions.CREDENTIAL_RENEWED]
        return msgspec.structs.replace(old, conditions=others)
    return of_condition(old, token, now, generation)


def of_condition(
    old: ManagedNodeStatus, condition: Condition, now: datetime, generation: int
) -> ManagedNodeStatus:
    """Return the status with a condition."""
    dated = msgspec.structs.replace(condition, observed_generation=generation)
    found = conditions.set_condition(old.conditions, dated, times.rfc3339(now))
    return msgspec.structs.replace(old, conditions=found)


def of_pass(old: ManagedNodeStatus, done: Pass, now: datetime, generation: int) -> ManagedNodeStatus:
    """Return the status after a pass."""
    stamp = times.rfc3339(now)
    before = {one.name: one for one in old.configsets}
    sets = sorted(done.config_sets, key=lambda one: one.metadata.name)
    by_set = _by_set(done.results)
    entries = [
        _entry(one, before.get(one.metadata.name), done, by_set[one.metadata.name], now) for one in sets
    ]
    found, ready = old.conditions, _ready(done)
    others = _drifted(done), _contested(done), _conflicted(done), _watching(done)
    for condition in (ready, _progressing(done, ready.reason), *others):
        dated = msgspec.structs.replace(condition, observed_generation=generation)
        found = conditions.set_condition(found, dated, stamp)
    return msgspec.structs.replace(
        old,
        conditions=found,
        configsets=entries,
        drift=done.drift or old.drift,
        file_backups=_backups(old, done),
        last_file_bucket_gc=_collected(old, done, stamp),
    )


def untold_backups(old: ManagedNodeStatus, done: Pass) -> int:
    """Return how many backups there is no room for in the status after a pass."""
    return len(_all_backups(old, done)) - len(_backups(old, done))


def _by_set(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return what is worth telling about each ConfigSet."""
    found: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        if one.outcome is not ResourceOutcome.UNCHANGED:
            for name in one.sources:
                found[name].append(one)
    return found


def _backups(old: ManagedNodeStatus, done: Pass) -> dict[str, str]:
    """Return where the first content of each file is, as far as there is room for it."""
    return backup_records.fitting(_all_backups(old, done), done.declared)


def _all_backups(old: ManagedNodeStatus, done: Pass) -> dict[str, str]:
    kept = done.collection.kept if done.collection is not None else None
    return backup_records.known(old.file_backups, done.backups, kept)


def _collected(old: ManagedNodeStatus, done: Pass, stamp: str) -> str | None:
    """Return when backups were last removed: a look that found nothing to remove is not worth a write."""
    if done.collection is not None and (done.collection.removed or old.last_file_bucket_gc is None):
        return stamp
    return old.last_file_bucket_gc


def _entry(
    config_set: ConfigSet, old: AppliedConfigSet | None, done: Pass, mine: Sequence[Result], now: datetime
) -> AppliedConfigSet:
    meta, applied = config_set.metadata, choosing.applied(config_set)
    new = AppliedConfigSet(
        name=meta.name,
        resource_version=meta.resource_version,
        observed_generation=meta.generation,
        last_applied=old.last_applied if old else None,
        error=joined(one for one in mine if one.failed),
        waiting=_waiting(mine) or _cut(str(done.waits.get(meta.name, ""))),
        conflicts=list(done.conflicts.get(meta.name, ())),
        revision=applied.revision,
        digest=applied.digest,
    )
    if held := sum(one.put_off for one in mine):
        before = old or AppliedConfigSet()
        return msgspec.structs.replace(
            new, held=held, resource_version=before.resource_version, revision=before.revision,
            observed_generation=before.observed_generation, digest=before.digest,
        )  # fmt: skip
    changed = any(one.outcome is ResourceOutcome.CHANGED for one in mine)
    if changed or new != old or _is_old(new.last_applied, now):
        return msgspec.structs.replace(new, last_applied=times.rfc3339(now))
    return new


def _waiting(mine: Sequence[Result]) -> str:
    """Return what a set waits for: what its resources need, and its window."""
    if any(one.outcome is ResourceOutcome.SHUT for one in mine):
        return enforcement.WAITS
    return joined(one for one in mine if one.outcome is ResourceOutcome.WAITING)


def _is_old(stamp: str | None, now: datetime) -> bool:
    parsed = times.parse(stamp)
    return parsed is None or now - parsed > REFRESH


def _ready(done: Pass) -> Condition:
    bad = [one for one in done.results if one.bad]
    failed = [one for one in bad if one.failed]
    at = _under_way(done)
    if not bad and (held := [one for one in done.results if one.outcome is ResourceOutcome.HELD]):
        waits = _listed([f"{one.id}: {one.message.partition(chr(10))[0]}" for one in held])
        return not_ready(f"this waits for the end of the hold: {waits}", node_conditions.HELD)
    if not bad and not at:
        lacking = {name: why for name, why in sorted(done.waits.items()) if why.bare}
        if lacking:
            said = _listed([f"ConfigSet {name}: {why.message}" for name, why in lacking.items()])
            return not_ready(said, next(iter(lacking.values())).code)
        return Condition(type=conditions.READY, status=conditions.TRUE, reason=node_conditions.APPLIED)
    tried = [one for one in failed if one.outcome is ResourceOutcome.FAILED]
    if tried and all("its validation failed" in one.message for one in tried):
        reason = node_conditions.VALIDATION_FAILED
    elif failed:
        reason = node_conditions.APPLY_FAILED
    else:
        reason = node_conditions.APPLYING if at else node_conditions.WAITING
    waiting = [one for one in bad if not one.failed]
    return not_ready(joined([*failed, *waiting]) or at, reason)


def _progressing(done: Pass, settled: str) -> Condition:
    """Tell whether something is being changed right now; if not, `settled` says how it stands."""
    if at := _under_way(done):
        return applying(at)
    return Condition(type=node_conditions.PROGRESSING, status=conditions.FALSE, reason=settled)


def _under_way(done: Pass) -> str:
    """Return what is being done: by a pass, or by executions that no pass waits for."""
    return _cut(done.under_way) or joined(
        one for one in done.results if one.outcome is ResourceOutcome.WAITING and not one.awaits
    )


def applying(at: str, type_: str = node_conditions.PROGRESSING) -> Condition:
    """Return that something is being changed right now; of the type Ready, that this is not over."""
    status = conditions.TRUE if type_ == node_conditions.PROGRESSING else conditions.FALSE
    return Condition(type=type_, status=status, reason=node_conditions.APPLYING, message=at)


def not_ready(why: str, reason: str = node_conditions.APPLY_FAILED) -> Condition:
    """Return that the host is not as declared, or that nobody can tell."""
    return Condition(type=conditions.READY, status=conditions.FALSE, reason=reason, message=_cut(why))


def _drifted(done: Pass) -> Condition:
    """Tell whether something that held before does not hold now, and could not be put back."""
    bad = [one for one in done.results if one.bad and one.drifted]
    if bad:
        return Condition(
            type=node_conditions.DRIFTED, status=conditions.TRUE, reason=node_conditions.NOT_REPAIRED,
            message=joined(bad),
        )  # fmt: skip
    if done.contested:
        return Condition(
            type=node_conditions.DRIFTED, status=conditions.TRUE, reason=node_conditions.CONTESTED,
            message=_listed(list(map(str, done.contested))),
        )  # fmt: skip
    if observed := [
        one for one in done.results if one.outcome is ResourceOutcome.OBSERVED or _held_drift(one)
    ]:
        return Condition(
            type=node_conditions.DRIFTED, status=conditions.TRUE, reason=node_conditions.OBSERVED,
            message=joined(observed),
        )  # fmt: skip
    return Condition(type=node_conditions.DRIFTED, status=conditions.FALSE, reason=node_conditions.NO_DRIFT)


def _held_drift(one: Result) -> bool:
    """Tell whether somebody changed it while it is not put back; what is new to declare is no drift."""
    return one.put_off and one.drifted


def _contested(done: Pass) -> Condition:
    """Tell whether somebody else keeps changing something; how often is left out, or it would never rest."""
    if not done.contested:
        return Condition(
            type=node_conditions.CONTESTED, status=conditions.FALSE, reason=node_conditions.NOT_CONTESTED
        )
    return Condition(
        type=node_conditions.CONTESTED, status=conditions.TRUE, reason=node_conditions.CONTESTED,
        message=_listed(list(map(str, done.contested))),
    )  # fmt: skip


def _watching(done: Pass) -> Condition:
    if done.shortfalls is None:
        return Condition(
            type=node_conditions.WATCHING, status=conditions.FALSE, reason=node_conditions.PERIODIC
        )
    if done.shortfalls:
        return Condition(
            type=node_conditions.WATCHING, status=conditions.FALSE, reason=node_conditions.INCOMPLETE,
            message=_listed(done.shortfalls),
        )  # fmt: skip
    return Condition(
        type=node_conditions.WATCHING, status=conditions.TRUE, reason=node_conditions.EVENT_DRIVEN
    )


def _conflicted(done: Pass) -> Condition:
    said = [text for name in sorted(done.conflicts) for text in done.conflicts[name]]
    return Condition(
        type=node_conditions.CONFLICTED,
        status=conditions.TRUE if said else conditions.FALSE,
        reason=node_conditions.RESOURCE_CONFLICT if said else node_conditions.NO_CONFLICT,
        message=_cut("; ".join(said)),
    )


def joined(results: Iterable[Result]) -> str:
    """Return the messages of failures, the first few in full and the number of the others."""
    return _listed([f"{one.id}: {one.said}" for one in results])


def _listed(said: Sequence[str]) -> str:
    shown = [wording.shorten(one, MAX_ERROR // MAX_NAMED) for one in said[:MAX_NAMED]]
    if len(said) > MAX_NAMED:
        shown.append(f"and {len(said) - MAX_NAMED} more")
    return _cut("; ".join(shown))


def _cut(text: str) -> str:
    return wording.shorten(text, MAX_ERROR)
