"""Which maintenances are woken by a change of themselves, and of what they refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from nodemanager.api.audit.auditcheckpoint import AuditCheckpoint
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApproval
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.controllers.node_maintenances import waking
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change

NAMESPACE = "fleet"
Woken = Callable[[Change[Any], Caches], Iterable[Wake]]


def maintenance(name: str, namespace: str = NAMESPACE, **spec: Any) -> NodeMaintenance:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": meta, "spec": spec}, NodeMaintenance)


def use(name: str) -> dict[str, Any]:
    return {"name": "x", "templateRef": {"name": name}}


@pytest.fixture(name="caches")
def _caches() -> Caches:
    found: Cache[NodeMaintenance] = Cache(None, NODE_MAINTENANCES)  # type: ignore[arg-type]
    for one in (
        maintenance("plain"),
        maintenance("refers", windowRef={"name": "night"}, seriesRef={"name": "webs"}, operations=[use("t")]),
        maintenance("others", windowRef={"name": "day"}, seriesRef={"name": "dbs"},
                    operations=[{"name": "own", "steps": []}, use("u")]),
        maintenance("far", "elsewhere", windowRef={"name": "night"}, seriesRef={"name": "webs"},
                    operations=[use("t")]),
    ):  # fmt: skip
        found._put(key_of(one), one)
    return Caches("test", {NODE_MAINTENANCES: found})


def woken(handler: Woken, caches: Caches, old: Any, new: Any, name: str = "changed") -> dict[str, float]:
    change = Change(ObjectKey(NAMESPACE, name), old, new)
    return {str(one.key): one.after for one in handler(change, caches)}


def at_once(*names: str) -> dict[str, float]:
    return {f"{NAMESPACE}/{name}": 0.0 for name in names}


@pytest.mark.parametrize(
    ("handler", "name", "wanted"),
    [
        (waking.on_window, "night", ["refers"]),
        (waking.on_window, "webs", []),
        (waking.on_series, "webs", ["refers"]),
        (waking.on_series, "night", []),
        (waking.on_template, "t", ["refers"]),
        (waking.on_template, "own", []),
    ],
)
def test_those_that_name_an_object_are_woken_when_it_changes(
    caches: Caches, handler: Woken, name: str, wanted: list[str]
) -> None:
    assert woken(handler, caches, None, None, name) == at_once(*wanted)


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        ({}, False),
        ({"resourceVersion": "2"}, False),
        ({"generation": 2}, True),
        ({"annotations": {"retry": "1"}}, True),
        ({"deletionTimestamp": "2026-11-16T06:00:00Z"}, True),
        ({"finalizers": ["x"]}, True),
    ],
)
def test_a_maintenance_is_woken_by_people_and_not_by_what_is_told_of_it(
    caches: Caches, change: dict[str, Any], wakes: bool
) -> None:
    old = maintenance("monday")
    meta = msgspec.convert({**msgspec.to_builtins(old.metadata), **change}, type(old.metadata))
    new = msgspec.structs.replace(old, metadata=meta)
    new = msgspec.structs.replace(new, status=msgspec.structs.replace(new.status, phase="Running"))
    key = ObjectKey(NAMESPACE, "monday")
    assert list(waking.on_maintenance(Change(key, old, new), caches)) == ([Wake(key)] if wakes else [])
    assert list(waking.on_maintenance(Change(key, None, new), caches)) == [Wake(key)]
    assert list(waking.on_maintenance(Change(key, new, None), caches)) == []


def test_when_the_audit_log_is_reliable_or_no_more_all_that_may_begin_work_are_woken(caches: Caches) -> None:
    def log(workflows: str) -> AuditCheckpoint:
        return msgspec.convert({"status": {"workflows": workflows}}, AuditCheckpoint)

    everything = at_once("plain", "refers", "others", "upgrades/", "repairs/")
    assert woken(waking.on_checkpoint, caches, log("Go"), log("Stop")) == everything
    assert woken(waking.on_checkpoint, caches, log("Stop"), log("Stop")) == {}


def config_set(generation: int = 1, owner: str = "", **fields: Any) -> ConfigSet:
    meta = {"name": "changed", "namespace": NAMESPACE, "generation": generation, "labels": {"a": "b"}}
    if owner:
        meta["ownerReferences"] = [{"uid": owner, "apiVersion": "v1", "kind": "x", "name": "x"}]
    return msgspec.convert({"metadata": meta, **fields}, ConfigSet)


def moving(generation: int = 1, **rollout: Any) -> ConfigSet:
    spec = {"rollout": {"strategy": "Staged"}}
    return config_set(generation, spec=spec, status={"rollout": rollout})


def revision(name: str) -> dict[str, Any]:
    return {"name": name, "revision": 1, "digest": "d" * 64, "labels": {"a": "b"}}


NEXT, LATER = moving(next=revision("n")), moving(next=revision("m"))
BACK, LEFT = moving(phase="Undoing", refused=revision("n")), moving(phase="Undoing", refused=revision("m"))
SOON = dict.fromkeys(at_once("plain", "refers", "others"), waking.SETTLE_SECONDS)
OPEN: dict[str, Any] = {"enforcement": {"openings": []}}
TURNS = {f"{NAMESPACE}/{waking.REPAIRS}": 0.0}


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param(None, NEXT, {}, id="new"),
        pytest.param(config_set(), config_set(2), {}, id="a spec that nobody here looks at"),
        pytest.param(config_set(), config_set(2, spec=OPEN), TURNS, id="enforced at other times"),
        pytest.param(config_set(spec=OPEN), None, {}, id="gone"),
        pytest.param(
            config_set(owner="uid-refers"),
            config_set(2, "uid-refers"),
            at_once("refers"),
            id="the set of one",
        ),
        pytest.param(config_set(owner="uid-refers"), None, at_once("refers"), id="of one, and gone"),
        pytest.param(
            config_set(owner="uid-refers"), config_set(1, "uid-refers"), {}, id="of one, and only its status"
        ),
        pytest.param(config_set(owner="uid-x"), None, {}, id="of somebody else"),
        pytest.param(moving(), NEXT, {}, id="a change begins"),
        pytest.param(NEXT, moving(next=revision("n"), stage=2), {}, id="a change goes on"),
        pytest.param(NEXT, moving(stable=revision("n")), SOON, id="a change has ended"),
        pytest.param(NEXT, LATER, SOON, id="another change"),
        pytest.param(NEXT, BACK, SOON, id="a change is undone"),
        pytest.param(BACK, LEFT, SOON, id="another one is undone"),
        pytest.param(BACK, moving(phase="Undoing", refused=revision("n"), stage=1), {}, id="hosts return"),
        pytest.param(NEXT, None, SOON, id="a change is gone"),
    ],
)
def test_a_set_wakes_whom_it_belongs_to_and_all_when_a_change_has_ended(
    caches: Caches, old: ConfigSet | None, new: ConfigSet | None, wanted: dict[str, float]
) -> None:
    assert woken(waking.on_config_set, caches, old, new) == wanted


def test_an_approval_wakes_what_is_approved(caches: Caches) -> None:
    def approval(**spec: str) -> MaintenanceApproval:
        return msgspec.convert({"spec": spec}, MaintenanceApproval)

    yes = approval(maintenance="monday")
    assert woken(waking.on_approval, caches, None, yes) == at_once("monday")
    assert woken(waking.on_approval, caches, yes, None) == at_once("monday")
    assert woken(waking.on_approval, caches, None, approval(configSet="web")) == {}
