"""Which ConfigSets a change wakes: those whose rollout it may move on, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import RESTART, ConfigSetRevision
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES, RolloutPolicy
from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApproval
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.controllers.rollouts import waking
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change

NAMESPACE = "fleet"
Woken = Callable[[Change[Any], Caches], Iterable[Wake]]
NEXT = {"next": {"name": "web-2", "revision": 2, "digest": "b" * 64}}
REFUSED = {"phase": "Undoing", "refused": NEXT["next"]}


def config_set(
    name: str = "web", namespace: str = NAMESPACE, group: str = "", status: Any = None, **fields: Any
) -> ConfigSet:
    """Return a set that moves in stages, unless its spec says otherwise."""
    body: dict[str, Any] = {"spec": {"rollout": {"strategy": "Staged", "group": group}}, **fields}
    body["metadata"] = {"name": name, "namespace": namespace, **fields.get("metadata", {})}
    return msgspec.convert({**body, "status": {"rollout": status}}, ConfigSet)


def caches_of(*sets: ConfigSet, policy: dict[str, Any] | None = None) -> Caches:
    none: Any = None
    known: Cache[ConfigSet] = Cache(none, CONFIG_SETS)
    for one in sets:
        known._put(key_of(one), one)
    policies: Cache[RolloutPolicy] = Cache(none, ROLLOUT_POLICIES)
    if policy is not None:
        policies._put(ObjectKey(NAMESPACE, DEFAULT), msgspec.convert({"spec": policy}, RolloutPolicy))
    return Caches("rollout", {CONFIG_SETS: known, ROLLOUT_POLICIES: policies})


def woken(handler: Woken, caches: Caches, old: Any, new: Any, name: str = "web") -> list[str]:
    return [str(one.key) for one in handler(Change(ObjectKey(NAMESPACE, name), old, new), caches)]


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(None, config_set(), True, id="new"),
        pytest.param(config_set(), None, False, id="gone"),
        pytest.param(config_set(), config_set(), False, id="nothing"),
        pytest.param(config_set(), config_set(metadata={"generation": 2}), True, id="another spec"),
        pytest.param(config_set(), config_set(metadata={"labels": {"a": "b"}}), True, id="other labels"),
        pytest.param(
            config_set(), config_set(metadata={"annotations": {RESTART: "1"}}), True, id="once more, please"
        ),
        pytest.param(config_set(), config_set(metadata={"annotations": {"x": "1"}}), False, id="a remark"),
        pytest.param(config_set(), config_set(status=NEXT), True, id="another state"),
    ],
)
def test_a_set_is_woken_when_its_rollout_may_go_on(
    old: ConfigSet | None, new: ConfigSet | None, wakes: bool
) -> None:
    assert woken(waking.on_config_set, caches_of(), old, new) == (["fleet/web"] if wakes else [])


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(None, config_set(group="g", metadata={"generation": 2}), False, id="joins"),
        pytest.param(config_set(group="g"), config_set(group="g", status=NEXT), False, id="stays"),
        pytest.param(config_set(), None, False, id="never moved with others"),
        pytest.param(config_set(group="g"), None, True, id="gone"),
        pytest.param(config_set(group="g"), config_set(group="h"), True, id="moves with others from now on"),
        pytest.param(config_set(group="g"), config_set(), True, id="moves alone from now on"),
        pytest.param(
            config_set(group="g"),
            config_set(group="g", metadata={"deletionTimestamp": "2026-11-16T06:00:00Z"}), True, id="deleted",
        ),
        pytest.param(
            config_set(group="g", metadata={"deletionTimestamp": "2026-11-16T06:00:00Z"}), None, False,
            id="deleted before",
        ),
    ],
)  # fmt: skip
def test_those_that_a_set_moved_with_are_woken_when_it_leaves_them(
    old: ConfigSet | None, new: ConfigSet | None, wakes: bool
) -> None:
    caches = caches_of(
        config_set("peer", group="g"), config_set("other", group="h"), config_set("alone"),
        config_set("far", "elsewhere", group="g"),
    )  # fmt: skip
    found = woken(waking.on_config_set, caches, old, new)
    assert [one for one in found if one != "fleet/web"] == (["fleet/peer"] if wakes else [])


def test_a_revision_that_was_removed_is_made_again() -> None:
    revision = msgspec.convert({"spec": {"configSet": "web"}}, ConfigSetRevision)
    assert woken(waking.on_revision, caches_of(), revision, None, "web-1") == ["fleet/web"]
    assert woken(waking.on_revision, caches_of(), None, revision, "web-1") == []
    assert woken(waking.on_revision, caches_of(), revision, revision, "web-1") == []


def test_the_default_wakes_those_that_say_nothing_themselves() -> None:
    caches = caches_of(
        config_set("follows", spec={}), config_set("own"), config_set("far", "elsewhere", spec={})
    )
    assert woken(waking.on_policy, caches, None, None, DEFAULT) == ["fleet/follows"]


NIGHT, DAY = ({"strategy": "Staged", "windowRef": {"name": name}} for name in ("night", "day"))


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [(None, ["own"]), (NIGHT, ["follows", "own"]), (DAY, ["own"]), ({"strategy": "Staged"}, ["own"])],
)
def test_a_window_wakes_those_that_wait_for_it(policy: dict[str, Any] | None, wanted: list[str]) -> None:
    caches = caches_of(
        config_set("follows", spec={}), config_set("own", spec={"rollout": NIGHT}),
        config_set("day", spec={"rollout": DAY}), config_set("none"),
        config_set("far", "elsewhere", spec={"rollout": NIGHT}), policy=policy,
    )  # fmt: skip
    assert woken(waking.on_window, caches, None, None, "night") == [f"fleet/{one}" for one in wanted]


def test_an_approval_wakes_the_set_that_it_is_for() -> None:
    def approval(**spec: str) -> MaintenanceApproval:
        return msgspec.convert({"spec": spec}, MaintenanceApproval)

    yes = approval(configSet="web")
    assert woken(waking.on_approval, caches_of(), None, yes, "a") == ["fleet/web"]
    assert woken(waking.on_approval, caches_of(), yes, None, "a") == ["fleet/web"]
    assert woken(waking.on_approval, caches_of(), None, approval(maintenance="monday"), "a") == []


def host(
    status: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **spec: Any
) -> ManagedNode:
    meta = {"name": "h", "namespace": NAMESPACE, "labels": {"a": "b"}, **(metadata or {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status or {}}, ManagedNode)


def condition(kind: str, status: str, reason: str = "x") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "reason": reason}]}


def report(name: str, **fields: Any) -> dict[str, Any]:
    return {"configsets": [{"name": name, "digest": "b" * 64, **fields}]}


@pytest.mark.parametrize(
    ("new", "wakes"),
    [
        pytest.param(host(), False, id="nothing"),
        pytest.param(host(metadata={"resourceVersion": "2"}), False, id="what is no news"),
        pytest.param(host(metadata={"labels": {}}), True, id="other labels"),
        pytest.param(host(report("web")), True, id="reports the set"),
        pytest.param(host(report("other")), False, id="reports another set"),
        pytest.param(host({"release": "6.1"}), True, id="is heard"),
        pytest.param(host({"agentVersion": "1"}), True, id="is heard, and knows no release"),
        pytest.param(host(condition("Alive", "False")), True, id="silent"),
        pytest.param(host(condition("Alive", "True")), False, id="alive, as it was"),
        pytest.param(host(condition("Held", "True")), True, id="held"),
        pytest.param(host(hold={"reason": "disk"}), True, id="held by somebody"),
        pytest.param(host(condition("Drifted", "True")), True, id="drifted"),
        pytest.param(host(condition("Ready", "False")), True, id="not ready"),
        pytest.param(host(condition("Escalated", "True")), False, id="a trouble of somebody else"),
        pytest.param(host(metadata={"annotations": {ANNOTATION_VISIT: "?"}}), True, id="visited"),
        pytest.param(None, True, id="gone"),
    ],
)
def test_a_host_wakes_the_sets_on_their_way_about_which_it_says_something_new(
    new: ManagedNode | None, wakes: bool
) -> None:
    caches = caches_of(config_set(status=NEXT))
    change = Change(ObjectKey(NAMESPACE, "h"), host(), new)
    wanted = [Wake(ObjectKey(NAMESPACE, "web"), waking.SETTLE_SECONDS)] if wakes else []
    assert list(waking.on_node(change, caches)) == wanted


def test_another_reason_of_a_trouble_is_news() -> None:
    caches = caches_of(config_set(status=NEXT))
    old, new = (host(condition("Ready", "False", why)) for why in ("Waits", "Fails"))
    assert woken(waking.on_node, caches, old, new, "h") == ["fleet/web"]


@pytest.mark.parametrize(
    ("one", "wakes"),
    [
        pytest.param(config_set(status=NEXT), True, id="in a rollout"),
        pytest.param(config_set(status=REFUSED), True, id="hosts return"),
        pytest.param(config_set(status={"stable": NEXT["next"]}), False, id="all have it"),
        pytest.param(config_set(), False, id="not begun"),
        pytest.param(
            config_set(spec={"rollout": {"strategy": "AllAtOnce"}}, status=NEXT), False, id="all at once"
        ),
        pytest.param(config_set(namespace="elsewhere", status=NEXT), False, id="elsewhere"),
    ],
)
def test_a_host_that_comes_wakes_only_sets_on_their_way(one: ConfigSet, wakes: bool) -> None:
    found = woken(waking.on_node, caches_of(one, config_set("too", status=NEXT)), None, host(), "h")
    assert found == (["fleet/web"] if wakes else []) + ["fleet/too"]
