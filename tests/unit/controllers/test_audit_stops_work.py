"""No new work begins while the audit log cannot be relied on, if that is wanted; and who hears of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, NAME, AuditCheckpoint
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.controllers import audit_gate
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.kube.objects import ObjectKey, ObjectMeta, key_of
from nodemanager.runtime.cache import Cache, Change

KEY = ObjectKey("ns", NAME)
NONE: Any = None


def log(workflows: str, *conditions: dict[str, str]) -> AuditCheckpoint:
    body = {"metadata": {"name": NAME}, "status": {"workflows": workflows, "conditions": conditions}}
    return msgspec.convert(body, AuditCheckpoint)


def intact(status: str) -> dict[str, str]:
    return {"type": "Intact", "status": status, "reason": "x", "message": "a record is missing"}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, ""),
        (log("Continue", intact("False")), ""),
        (log("Stop"), "it is behind"),
        (log("Stop", intact("True")), "it is behind"),
        (log("Stop", intact("False")), "a record is missing"),
    ],
)
def test_why_no_work_may_begin(found: AuditCheckpoint | None, why: str) -> None:
    cache: Cache[AuditCheckpoint] = Cache(NONE, AUDIT_CHECKPOINTS)
    if found is not None:
        cache._put(KEY, found)
    assert audit_gate.stopped(cache, "ns") == (f"the audit log cannot be relied on: {why}" if why else "")
    assert audit_gate.stopped(cache, "elsewhere") == ""


@pytest.mark.parametrize(
    ("old", "new", "is_news"),
    [
        (None, log("Stop"), True),
        (log("Stop"), None, True),
        (log("Continue"), log("Stop"), True),
        (log("Stop", intact("True")), log("Stop", intact("False")), False),
        (None, log(""), False),
    ],
)
def test_those_that_may_begin_work_are_woken_when_that_changes(
    old: AuditCheckpoint | None, new: AuditCheckpoint | None, is_news: bool
) -> None:
    hosts: Cache[ManagedNode] = Cache(NONE, MANAGED_NODES)
    for namespace in ("ns", "elsewhere"):
        one = ManagedNode(ObjectMeta(name="a", namespace=namespace))
        hosts._put(key_of(one), one)
    change = Change(KEY, old, new)
    assert audit_gate.is_news(change) is is_news
    found = list(audit_gate.wakes(MANAGED_NODES)(change, Caches("x", {MANAGED_NODES: hosts})))
    assert found == ([Wake(ObjectKey("ns", "a"))] if is_news else [])
