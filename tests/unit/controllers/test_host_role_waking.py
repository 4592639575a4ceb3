"""Whose Roles a change may change: those hosts are looked at, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.controllers.host_roles import roles
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.kube.core import Role
from nodemanager.kube.objects import ObjectKey, ObjectMeta, key_of
from nodemanager.runtime.cache import Cache, Change

WEB, DB = {"role": "web"}, {"role": "db"}
Woken = Callable[[Change[Any], Caches], Iterable[Wake]]


@pytest.fixture(name="caches")
def _caches() -> Caches:
    none: Any = None
    found: Cache[ManagedNode] = Cache(none, MANAGED_NODES)
    for name, labels in (("web1", WEB), ("web2", WEB), ("db1", DB)):
        one = ManagedNode(ObjectMeta(name=name, namespace="ns", labels=labels))
        found._put(key_of(one), one)
    return Caches("hostrole", {MANAGED_NODES: found})


def woken(handler: Woken, caches: Caches, old: Any, new: Any, name: str = "x") -> list[str]:
    found = list(handler(Change(ObjectKey("ns", name), old, new), caches))
    assert all(one.after == roles.SETTLE_SECONDS and one.key.namespace == "ns" for one in found)
    return [one.key.name for one in found]


def config_set(labels: dict[str, str] | None = None, published: Any = None, **spec: Any) -> ConfigSet:
    meta = {"name": "x", "namespace": "ns", "labels": WEB if labels is None else labels}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"rollout": published}}, ConfigSet)


def staged(labels: dict[str, str] | None = None, **rollout: Any) -> ConfigSet:
    return config_set(labels, rollout, rollout={"strategy": "Staged"})


def ref(name: str, **labels: str) -> dict[str, Any]:
    return {"name": name, "revision": 1, "digest": name * 64, "labels": labels}


PACKAGES: dict[str, Any] = {"packages": [{"name": "vim"}]}
WEBS, DBS, ALL = ["web1", "web2"], ["db1"], ["web1", "web2", "db1"]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param(None, config_set(), WEBS, id="new"),
        pytest.param(config_set(), None, WEBS, id="gone"),
        pytest.param(config_set(), config_set(), [], id="nothing"),
        pytest.param(config_set(), config_set(**PACKAGES), WEBS, id="another spec"),
        pytest.param(config_set(), config_set(DB), ALL, id="for others"),
        pytest.param(config_set(published={"stage": 1}), config_set(), [], id="a rollout that is none"),
        pytest.param(staged(), staged(next=ref("a", **WEB)), WEBS, id="a change begins"),
        pytest.param(staged(stable=ref("a", **DB)), staged(), ALL, id="a revision for others is gone"),
        pytest.param(staged(), staged(stable=ref("a", **DB)), ALL, id="a revision for others comes"),
        pytest.param(
            staged(next=ref("a", **DB)), staged(next=ref("a", **DB), threshold=5), [], id="further hosts"
        ),
        pytest.param(
            staged(next=ref("a", **WEB)), staged(refused=ref("a", **WEB)), WEBS, id="a change is undone"
        ),
        pytest.param(
            config_set(published={"policy": {"name": "default"}}), config_set(), WEBS, id="all at once now"
        ),
        pytest.param(
            config_set(), config_set(published={"policy": {"name": "default"}}), WEBS, id="in stages now"
        ),
        pytest.param(staged({}, stable=ref("a", **DB)), None, DBS, id="for others only"),
    ],
)
def test_a_set_wakes_hosts_that_it_grants_something_else_now(
    caches: Caches, old: ConfigSet | None, new: ConfigSet | None, wanted: list[str]
) -> None:
    assert woken(roles.on_config_set, caches, old, new) == wanted


def revision(*, forged: bool = False) -> ConfigSetRevision:
    content: dict[str, Any] = {"files": []}
    digest = "f" * 64 if forged else configsetrevision.digest_of(WEB, content)
    spec = {"labels": WEB, "content": content, "digest": digest}
    return msgspec.convert({"metadata": {"name": "x-1", "namespace": "ns"}, "spec": spec}, ConfigSetRevision)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param(None, revision(), WEBS, id="new"),
        pytest.param(revision(), revision(), [], id="known"),
        pytest.param(revision(), None, [], id="gone"),
        pytest.param(None, revision(forged=True), [], id="nobody can use it"),
    ],
)
def test_a_revision_that_comes_wakes_hosts_that_it_is_for(
    caches: Caches, old: ConfigSetRevision | None, new: ConfigSetRevision | None, wanted: list[str]
) -> None:
    assert woken(roles.on_revision, caches, old, new) == wanted


def test_a_host_is_looked_at_while_it_is_there(caches: Caches) -> None:
    host = ManagedNode(ObjectMeta(name="web1", namespace="ns"))
    assert woken(roles.on_node, caches, None, host, "web1") == ["web1"]
    assert woken(roles.on_node, caches, host, host, "web1") == ["web1"]
    assert woken(roles.on_node, caches, host, None, "web1") == []


SECRET = {"execution": {"argv": ["true"], "secretEnv": [{"name": "V", "secret": "db", "key": "k"}]}}
FILE = {"file": {"path": "/x", "template": "x", "configMapRefs": ["c"]}}
PLAIN = {"reboot": {"when": "always"}}


def task(step: dict[str, Any], phase: str = "") -> NodeTask:
    spec = {"nodeName": "web1", "steps": [{"name": "a", **step}]}
    meta = {"name": "t", "namespace": "ns"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, NodeTask)


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(None, task(SECRET), True, id="new, with a Secret"),
        pytest.param(None, task(FILE), True, id="new, with a ConfigMap"),
        pytest.param(None, task(PLAIN), False, id="new, and names nothing"),
        pytest.param(task(SECRET), task(SECRET, "Running"), False, id="begins"),
        pytest.param(task(SECRET), task(SECRET, "Failed"), True, id="ends"),
        pytest.param(task(SECRET), None, True, id="goes"),
        pytest.param(task(SECRET, "Failed"), None, False, id="goes after its end"),
        pytest.param(task(SECRET, "Failed"), task(SECRET, "Failed"), False, id="has ended"),
    ],
)
def test_a_task_wakes_its_host_when_it_comes_and_when_it_ends(
    caches: Caches, old: NodeTask | None, new: NodeTask | None, wakes: bool
) -> None:
    assert woken(roles.on_task, caches, old, new) == (["web1"] if wakes else [])


@pytest.mark.parametrize(
    ("name", "old", "wanted"),
    [
        ("nodemanager-web1-references", Role(), ["web1"]),
        ("nodemanager-a-references-references", Role(), ["a-references"]),
        ("nodemanager-web1-references", None, []),
        ("nodemanager-web1", Role(), []),
    ],
)
def test_a_role_that_somebody_changed_is_put_right(
    caches: Caches, name: str, old: Role | None, wanted: list[str]
) -> None:
    for new in (Role(), None):
        assert woken(roles.on_role, caches, old, new, name) == wanted
