"""Reports the results of a pass to people and machines: log lines, Kubernetes Events, metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from nodemanager.agent.drift.repair_backoff import ContestedResource
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.plan.desired import Desired
from nodemanager.plan.host_kinds import Metric
from nodemanager.plan.stages import KINDS, HostKinds
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Counter, Family, Registry

log = logging.getLogger("nodemanager.agent")
_LEFT: Final = {
    ResourceOutcome.OBSERVED: "left alone",
    ResourceOutcome.HELD: "held back",
    ResourceOutcome.SHUT: "put off until its window opens",
}
"""Results that are not as declared and stay so, as text."""
_REPAIR_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 600.0)


class Reporter:
    """Counts and reports results; unchanged resources are not reported."""

    def __init__(
        self,
        node: str,
        registry: Registry,
        events: EventRecorder | None,
        clock: Callable[[], float],
        kinds: HostKinds = KINDS,
    ) -> None:
        self._node = node
        self._events = events
        self._clock = clock
        self._sets: set[str] = set()
        self._versions: dict[str, str] = {}
        self._told: dict[str, str] = {}
        per_set = ("node", "configset")
        self._applies = registry.counter(
            "nodemanager_configset_apply_total", "Passes by ConfigSet and result.", (*per_set, "result")
        )
        self._seconds = registry.histogram(
            "nodemanager_configset_apply_duration_seconds", "Time spent on a ConfigSet.", per_set
        )
        self._last = registry.gauge(
            "nodemanager_last_configset_apply_timestamp_seconds", "When a ConfigSet last held.", per_set
        )
        self._version = registry.gauge(
            "nodemanager_configset_applied_resource_version", "When this version was applied.",
            (*per_set, "resource_version"),
        )  # fmt: skip
        self._conflicts = registry.counter(
            "nodemanager_configset_conflicts_total", "Resources held back by conflicts.", per_set
        )
        self._counts = {kind.name: (kind.count.by, _counter(kind.count, registry)) for kind in kinds}
        self._drift = registry.counter(
            "nodemanager_drift_repaired_total", "Foreign changes undone.", ("node",)
        )
        self._pruned = registry.counter(
            "nodemanager_pruned_total", "Resources put back that nobody declares any more.",
            ("node", "kind", "result"),
        )  # fmt: skip
        self._repair_seconds = registry.histogram(
            "nodemanager_drift_repair_seconds", "From noticing a foreign change to having undone it.",
            ("node",), _REPAIR_BUCKETS,
        )  # fmt: skip

    def passed(
        self, node: ManagedNode, sets: Sequence[ConfigSet], desired: Desired, results: Sequence[Result]
    ) -> None:
        """Report a pass."""
        for one in results:
            self._count(one)
        # Failures first: events are few per host, and a thousand changes must not use them up.
        for one in sorted(results, key=lambda each: each.outcome is ResourceOutcome.CHANGED):
            self._tell(node, one)
        self._told = {str(one.id): one.message for one in results if _lasts(one)}
        for config_set in sets:
            self._of_set(config_set, desired, results)
        for gone in self._sets - {one.metadata.name for one in sets}:
            self._forget(gone)
        self._sets = {one.metadata.name for one in sets}

    def repaired(self, results: Sequence[Result], seconds: float) -> None:
        """Report what became of a few resources so many seconds after they were touched."""
        for one in results:
            self._count(one)
            if one.drifted and one.outcome is ResourceOutcome.CHANGED:
                self._repair_seconds.labels(self._node).observe(seconds)
            self._tell(None, one)
        bad = {str(one.id): one.message for one in results if _lasts(one)}
        gone = {str(one.id) for one in results}
        self._told = {name: said for name, said in self._told.items() if name not in gone} | bad

    def contested(self, node: ManagedNode | None, one: ContestedResource) -> None:
        """Warn that somebody else keeps changing something; `node` None = it is not known yet."""
        said = f"{one}: repairs of it slow down; take it out of one of the two, or let its drift be observed"
        log.warning("%s", said)
        if self._events and node is not None:
            self._events.warning(MANAGED_NODES, node, "Contested", said)

    def _of_set(self, config_set: ConfigSet, desired: Desired, results: Sequence[Result]) -> None:
        name = config_set.metadata.name
        mine = [one for one in results if name in one.sources]
        bad = any(one.bad for one in mine)
        held = any(one.put_off for one in mine)
        if not bad or any(one.failed for one in mine):
            self._applies.labels(self._node, name, "error" if bad else "held" if held else "success").inc()
        self._seconds.labels(self._node, name).observe(sum(one.seconds for one in mine))
        if conflicts := desired.conflicts.get(name):
            self._conflicts.labels(self._node, name).inc(len(conflicts))
        if not bad and not held:
            now = self._clock()
            self._last.labels(self._node, name).set(now)
            version = config_set.metadata.resource_version
            if self._versions.get(name) != version:
                self._version.remove_matching(configset=name)
                self._versions[name] = version
            self._version.labels(self._node, name, version).set(now)

    def _forget(self, name: str) -> None:
        self._versions.pop(name, None)
        for family in (self._applies, self._seconds, self._last, self._version, self._conflicts):
            family.remove_matching(configset=name)
        for by, counter in self._counts.values():
            if by == "configset":
                counter.remove_matching(configset=name)

    def _count(self, one: Result) -> None:
        if one.outcome not in (ResourceOutcome.CHANGED, ResourceOutcome.FAILED):
            return
        said = "success" if one.outcome is ResourceOutcome.CHANGED else "error"
        if one.pruned:
            self._pruned.labels(self._node, one.id.kind, said).inc()
            return
        by, counter = self._counts[one.id.kind]
        if by:
            for each in one.sources if by == "configset" else one.operations:
                counter.labels(self._node, each, said).inc()
        else:
            counter.labels(self._node, said).inc()
        if one.drifted and one.outcome is ResourceOutcome.CHANGED:
            self._drift.labels(self._node).inc()

    def _tell(self, node: ManagedNode | None, one: Result) -> None:
        """Log and send what is new; a failure that lasts is told once, until it changes."""
        if one.outcome is ResourceOutcome.CHANGED:
            said = f"{one.id} {one.done}{_whose(one)} ({one.message})"
            by = f", by {one.by}" if one.by else ""
            log.info("%s%s (%.0f ms)%s", "drift: " if one.drifted else "", said, one.seconds * 1000, by)
            if self._events and node is not None and not one.drifted:  # each drift is reported by itself
                self._events.normal(MANAGED_NODES, node, "Pruned" if one.pruned else "Changed", said)
        elif one.outcome is ResourceOutcome.OBSERVED or one.put_off:
            if self._told.get(str(one.id)) != one.message:
                what = _LEFT[one.outcome]
                drift = "drift: " if one.drifted else ""
                log.warning("%s%s is %s: %s", drift, one.id, what, one.message.partition("\n")[0])
        elif one.outcome is ResourceOutcome.WAITING:
            log.info("%s: %s", one.id, one.said)
        elif one.bad and self._told.get(str(one.id)) != one.message:
            reason = "Failed" if one.outcome is ResourceOutcome.FAILED else "Blocked"
            log.warning("%s %s: %s", one.id, reason.lower(), one.message)
            if self._events and node is not None:
                self._events.warning(MANAGED_NODES, node, reason, f"{one.id}: {one.message}")


def _whose(one: Result) -> str:
    """Return for whom something was done."""
    words = "ConfigSets" if one.sources[1:] else "ConfigSet"
    return f" for {words} {', '.join(one.sources)}" if one.sources else ""


def _lasts(one: Result) -> bool:
    """Tell whether the next pass will find it so, too."""
    return one.failed or one.outcome in _LEFT


def _counter(metric: Metric, registry: Registry) -> Family[Counter]:
    by = (metric.by,) if metric.by else ()
    return registry.counter(metric.name, metric.help, ("node", *by, "result"))
