"""Whether new work may begin: not while the audit log is broken or behind, unless the settings allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nodemanager.api.audit.auditcheckpoint import INTACT, NAME, STOP, AuditCheckpoint
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectKey, Resource, key_of
from nodemanager.runtime.cache import Cache, Change

OBJECT = f"auditcheckpoint/{NAME}"


def stopped(checkpoints: Cache[AuditCheckpoint], namespace: str) -> str:
    """Return why no new work may begin; empty = it may."""
    found = checkpoints.get(ObjectKey(namespace, NAME))
    if found is None or found.status.workflows != STOP:
        return ""
    intact = conditions.get(found.status.conditions, INTACT)
    why = intact.message if intact is not None and intact.status == conditions.FALSE else "it is behind"
    return f"the audit log cannot be relied on: {why}"


def wakes(resource: Resource[Any]) -> Callable[[Change[AuditCheckpoint], Caches], Iterator[Wake]]:
    """Return what wakes all objects of a kind when that changes."""

    def on_checkpoint(change: Change[AuditCheckpoint], caches: Caches) -> Iterator[Wake]:
        if is_news(change):
            for one in caches.of(resource).values():
                if one.metadata.namespace == change.key.namespace:
                    yield Wake(key_of(one))

    return on_checkpoint


def is_news(change: Change[AuditCheckpoint]) -> bool:
    """Tell whether a change allows or stops new work."""
    return _workflows(change.old) != _workflows(change.new)


def _workflows(checkpoint: AuditCheckpoint | None) -> str:
    return checkpoint.status.workflows if checkpoint is not None else ""
