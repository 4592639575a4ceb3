"""A ManagedNode in words: what the host is, how it is doing, and why. Pure: object in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from nodemanager.api.common import managednode, node_conditions, node_upgrades
from nodemanager.api.common.left_drifts import LeftDrifts
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.cli.views import describing, output
from nodemanager.cli.views.edge import agent_tables
from nodemanager.kube import conditions, core
from nodemanager.kube.wording import plural

DRIFTS: Final = 10
"""The newest changes of others that are shown; the status has more."""
_KEY_ALGORITHMS: Final = {1: "RSA", 2: "DSA", 3: "ECDSA", 4: "Ed25519", 6: "Ed448"}
_KEY_HASHES: Final = {1: "SHA-1", 2: "SHA-256"}


def render(node: ManagedNode, events: Sequence[core.Event], now: datetime) -> str:
    """Return the description of a host."""
    report = output.Report()
    describing.add_head(report, node.metadata, now)
    _add_host(report, node, now)
    _add_upgrade(report, node, now)
    _add_drift(report, node.status, now)
    describing.add_conditions(report, node.status.conditions, node.metadata.generation, now)
    _add_config_sets(report, node.status, now)
    _add_drifts(report, node.status, now)
    _add_network(report, node)
    _add_ssh_keys(report, node.status)
    agent_tables.add_tables(report, node, now)
    describing.add_events(report, events, now)
    return report.text()


def _add_host(report: output.Report, node: ManagedNode, now: datetime) -> None:
    spec, status = node.spec, node.status
    if status.os is not None:
        report.field("OS", status.os.pretty_name or status.os.id)
    report.field("Release", status.release or output.UNKNOWN)
    report.field("Agent", status.agent_version or "has not reported yet")
    report.field("Alive", _life(status, now))
    if held := _hold(node, now):
        report.field("Held", held)
    if status.heartbeat is not None and status.heartbeat.lease_name:
        report.field("Heartbeat", f"Lease {status.heartbeat.lease_name}")
    agent_tables.add_field(report, node, now)
    if spec.domain:
        report.field("Domain", spec.domain)
    if spec.reconcile_period:
        report.field("Reconciles", f"every {spec.reconcile_period}")
    if status.jailed:
        report.field("Jailed", describing.yes_no(status.jailed))
    if status.kubernetes_node_cordoned:
        report.field("Cordoned", f"since {output.ago(status.kubernetes_node_cordoned, now)}")
    if status.orphans is not None:
        report.field("Left behind", f"{plural(status.orphans.count, 'resource')}; see nodemanager orphans")
    if status.file_backups:
        report.field("Backups", f"{plural(len(status.file_backups), 'file')} can be restored")


def _life(status: ManagedNodeStatus, now: datetime) -> str:
    found = conditions.get(status.conditions, node_conditions.ALIVE)
    if found is None:
        return "not judged yet; the operator does that"
    if found.status == conditions.TRUE:
        return f"yes, since {output.ago(found.last_transition_time, now)}"
    if found.status == conditions.FALSE:
        return f"no, last seen {output.ago(status.last_seen, now)}" if status.last_seen else "no"
    return output.one_line(f"unknown: {found.message}", describing.MESSAGE_LIMIT)


def _hold(node: ManagedNode, now: datetime) -> str:
    """Return the hold of the host; empty = there is none, and none is wanted."""
    found = conditions.get(node.status.conditions, node_conditions.HELD)
    if found is not None and found.status == conditions.TRUE:
        since = output.ago(found.last_transition_time, now)
        return output.one_line(f"since {since}: {found.message}", describing.MESSAGE_LIMIT)
    hold = node.spec.hold
    end = output.parse_time(hold.until) if hold else None
    if hold is None or end is None or end <= now:
        return ""
    said = f"not yet, its agent has not confirmed it: {hold.reason}; until {hold.until}"
    return output.one_line(said, describing.MESSAGE_LIMIT)


def _add_upgrade(report: output.Report, node: ManagedNode, now: datetime) -> None:
    upgrade = node.spec.upgrade
    if upgrade is None:
        plan = "never by itself"
    else:
        parts = {"schedule": upgrade.schedule, "group": upgrade.group, "delay": upgrade.delay}
        plan = ", ".join(f"{name} {value}" for name, value in parts.items() if value) or "no schedule"
    last = node.status.last_upgrade
    lines = [plan, f"last {output.ago(last, now)}" if last else "not done yet"]
    known = node.status.upgrade or node_upgrades.UpcomingUpgrades()
    slots, started = known.next_slots, known.started_at
    lines += [f"under way since {output.ago(started, now)}"] if started else []
    lines += [f"waits for the operator since {output.ago(known.due.slot, now)}"] if known.due else []
    lines += [f"next {output.ahead(slot, now)}" for slot in slots]
    if managednode.ANNOTATION_HOLD in node.metadata.annotations:
        lines.append(f"held back by annotation {managednode.ANNOTATION_HOLD}")
    report.field("Upgrade", *lines)


def _add_drift(report: output.Report, status: ManagedNodeStatus, now: datetime) -> None:
    drift = status.drift
    if drift is None or not (drift.repaired or drift.observed or drift.recent):
        report.field("Drift", "nothing had to be repaired")
        return
    lines = [f"{plural(drift.repaired, 'foreign change')} undone"]
    if drift.repaired:
        lines.append(f"last {drift.last_resource or output.UNKNOWN}, {output.ago(drift.last_time, now)}")
    if drift.observed:
        lines.append(f"{plural(drift.observed, 'change')} seen and left alone")
    report.field("Drift", *lines, *_left(status, now))


def _left(status: ManagedNodeStatus, now: datetime) -> Iterator[str]:
    """Yield foreign changes that wait, for whom or what, and since when."""
    found = status.left_drifts or LeftDrifts()
    for entries, for_what in ((found.escalated, "a person"), (found.asks, "its turn")):
        for one in entries:
            what = f"waits: {plural(one.resources, 'resource')}"
            yield f"{what} of ConfigSet {one.configset} for {for_what} since {output.ago(one.since, now)}"


def _add_drifts(report: output.Report, status: ManagedNodeStatus, now: datetime) -> None:
    """Add the newest changes of others, and how they differ where everybody may see it."""
    recent = status.drift.recent[-DRIFTS:] if status.drift is not None else []
    if not recent:
        return
    newest = list(reversed(recent))
    rows = [
        [
            output.age(one.time, now), one.resource, one.outcome,
            output.one_line(one.message.partition("\n")[0], describing.MESSAGE_LIMIT),
            output.one_line(one.by),
        ]
        for one in newest
    ]  # fmt: skip
    report.table("Last drifts", ["SEEN", "RESOURCE", "OUTCOME", "WHAT DIFFERED", "BY"], rows)
    latest = {one.resource: one for one in recent}
    lines = [
        [resource, output.one_line(line, describing.MESSAGE_LIMIT)]
        for resource, one in latest.items()
        for line in one.message.splitlines()[1:]
    ]
    if lines:
        report.table("Differences", ["RESOURCE", "DECLARED (-), FOUND (+)"], lines, describing.ROWS_LIMIT)


def _add_config_sets(report: output.Report, status: ManagedNodeStatus, now: datetime) -> None:
    rows = [
        [
            applied.name,
            f"{output.age(applied.last_applied, now)} ago" if applied.last_applied else "never",
            str(applied.revision or "-"),
            str(len(applied.conflicts)),
            output.one_line(applied.error or applied.waiting, describing.MESSAGE_LIMIT),
        ]
        for applied in status.configsets
    ]
    report.table("ConfigSets", ["NAME", "APPLIED", "REVISION", "CONFLICTS", "MESSAGE"], rows)
    conflicts = [[applied.name, held] for applied in status.configsets for held in applied.conflicts]
    if conflicts:
        report.table("Conflicts", ["CONFIGSET", "HELD BACK"], conflicts, describing.ROWS_LIMIT)


def _add_network(report: output.Report, node: ManagedNode) -> None:
    rows = [
        [name, ", ".join(interface.ipv4), ", ".join(interface.ipv6)]
        for name, interface in sorted(node.status.interfaces.items())
    ]
    report.table("Interfaces", ["NAME", "IPV4", "IPV6"], rows, describing.ROWS_LIMIT)
    wanted = node.spec.wire_guard
    if node.status.wire_guard or (wanted is not None and wanted.enabled):
        keys = [
            [guard.name, guard.public_key, str(guard.listen_port or output.UNKNOWN)]
            for guard in node.status.wire_guard
        ]
        report.table("WireGuard", ["INTERFACE", "PUBLIC KEY", "PORT"], keys)


def _add_ssh_keys(report: output.Report, status: ManagedNodeStatus) -> None:
    rows = [
        [
            _KEY_ALGORITHMS.get(key.algorithm, f"algorithm {key.algorithm}"),
            _KEY_HASHES.get(key.fingerprint_type, f"hash {key.fingerprint_type}"),
            key.fingerprint,
        ]
        for key in status.ssh_host_keys
    ]
    report.table("SSH host keys", ["ALGORITHM", "HASH", "FINGERPRINT"], rows)
