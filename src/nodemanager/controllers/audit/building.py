"""Builds the writer of the audit log, and says what wakes it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from typing import Final

from nodemanager.api.audit.record import Record
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.controllers.audit.journal import AuditJournal
from nodemanager.controllers.registration import THE_ONE, Caches, ControllerContext, Wake
from nodemanager.fleet.audit import aspects, chain_merging, observed
from nodemanager.fleet.audit.observed import ObservedObject
from nodemanager.kube.conditions import TRUE
from nodemanager.runtime.cache import Change
from nodemanager.runtime.controller import Reconcile
from nodemanager.runtime.events import EventRecorder
from nodemanager.runtime.metrics import Registry

log = logging.getLogger("nodemanager.operator.audit")
LOOK_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 0.5
"""Changes at about the same time are written together, because each write sends a whole segment."""


def soon(_change: Change[ObservedObject], _caches: Caches) -> Iterable[Wake]:
    """Wake the writer, a moment later."""
    return (Wake(THE_ONE, SETTLE_SECONDS),)


def build(context: ControllerContext, *, edge: bool = False) -> Reconcile:
    """Return the reconcile."""
    caches = {one.kind: context.caches.of(one) for one in observed.kinds_seen(edge=edge)}
    for kind, cache in caches.items():
        cache.trim_by(functools.partial(aspects.look, kind))
    tell = functools.partial(_tell, context.events)
    journal = AuditJournal(context.client, context.namespace, caches, context.now, context.audit, tell)
    _measure(journal, context.metrics)
    return journal.reconcile


def _tell(events: EventRecorder, record: Record) -> None:
    """Report that the chain of a host contradicts earlier reports."""
    if record.verb == chain_merging.ALARM and record.chain is not None:
        about = record.object
        meta = observed.ObservedMeta(name=about.name, namespace=about.namespace, uid=about.uid)
        log.warning("the audit chain of host %s: %s: %s", about.name, record.reason, record.message)
        events.warning(MANAGED_NODES, ObservedObject(metadata=meta), f"Chain{record.reason}", record.message)


def _measure(journal: AuditJournal, registry: Registry) -> None:
    gauges = {
        "intact": ("1 while the audit log is as it was signed.", lambda: float(journal.sound.intact)),
        "failing": (
            "1 while records cannot be written.",
            lambda: float(journal.sound.failing_since is not None),
        ),
        "records": ("Records in the audit log.", lambda: float(journal.store.tail.size)),
        "signed_records": ("Records that the last checkpoint covers.", lambda: float(journal.signing.size)),
        "users_stamped": (
            "1 while the API writes down who asks for something.",
            lambda: float(journal.sound.stamped is not None and journal.sound.stamped.status == TRUE),
        ),
        "host_chains_not_kept": (
            "Hosts whose own chains are not what they told before.",
            lambda: float(len(journal.sound.hosts)),
        ),
        "pending": ("Changes that are not recorded yet.", lambda: float(len(journal.pending))),
        "bytes": (
            "Bytes of records in the API.",
            lambda: float(sum(one.bytes for one in journal.store.stored.values())),
        ),
    }
    for name, (text, function) in gauges.items():
        registry.gauge(f"nodemanager_audit_{name}", text).labels().set_function(function)
