"""Hosts with what we wrote on them and the cache does not show yet."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.api.maintenance.nodetask import NODE_TASKS, UPGRADES, NodeTask
from nodemanager.client.verbs import Client
from nodemanager.controllers.node_maintenances import ahead
from nodemanager.controllers.node_maintenances.ahead import REPAIRING, UPGRADING, HostsAhead, TasksAhead
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.kube.objects import ObjectKey, ObjectMeta, key_of
from nodemanager.runtime.cache import Cache

KEYS = [ObjectKey(space, f"h{number}") for space in ("a", "b") for number in range(4)]


def host(key: ObjectKey, version: int, *, asks: bool) -> ManagedNode:
    left = LeftDrifts(asks=[LeftDrift(configset="sshd")]) if asks else None
    return ManagedNode(
        metadata=ObjectMeta(
            name=key.name, namespace=key.namespace, uid=str(key), resource_version=str(version)
        ),
        status=ManagedNodeStatus(left_drifts=left),
    )


@pytest.mark.parametrize("seed", range(20))
def test_who_is_visited_is_told_by_the_newest_that_is_known_of_each_host(seed: int) -> None:
    chance = random.Random(seed)
    cache = Cache(cast("Client", None), MANAGED_NODES)
    hosts, newest = HostsAhead(cache), dict[ObjectKey, ManagedNode]()
    for version in range(1, 120):
        key = chance.choice(KEYS)
        now, before = host(key, version, asks=chance.random() < 0.5), hosts.get(key)
        if before is not None and chance.random() < 0.5:
            hosts.wrote(before, now)  # and the cache does not have it yet
        elif chance.random() < 0.1:
            cache._remove(key)
            newest.pop(key, None)
            continue
        else:
            cache._put(key, now)
        newest[key] = now
        asking = sorted(one for one, found in newest.items() if REPAIRING in ahead._visitors(found))
        assert [key_of(one) for one in hosts.visited_by(REPAIRING)] == asking
        here = {key_of(one): one for one in hosts.everyone_newest("a")}
        assert here == {one: found for one, found in newest.items() if one.namespace == "a"}


def claimed(state: State, owner: str, uid: str = "m-1") -> dict[str, str]:
    now = datetime(2026, 11, 16, 6, tzinfo=UTC)
    made = Claim(
        maintenance=owner, uid=uid, host_uid="h", run="r", attempt=0, state=state, since=now, begun=now,
        expires=now,
    )  # fmt: skip
    return {ANNOTATION_VISIT: claims.encode(made)}


def web(version: int = 1, *, labels: dict[str, str] | None = None, **fields: Any) -> ManagedNode:
    meta: dict[str, Any] = {"name": "web1", "namespace": "ns", "uid": "h", "resourceVersion": str(version)}
    meta |= {"labels": labels or {}, "annotations": fields.pop("notes", {})}
    return msgspec.convert({"metadata": meta, **fields}, ManagedNode)


ASKING = {"leftDrifts": {"asks": [{"configset": "sshd"}]}}


@pytest.mark.parametrize(
    ("one", "found_by"),
    [
        pytest.param(web(), [], id="nothing"),
        pytest.param(web(notes={ANNOTATION_VISIT: "?"}), [], id="nobody can read that"),
        pytest.param(web(notes=claimed(State.WORKING, "monday")), ["m-1"], id="visited"),
        pytest.param(web(notes=claimed(State.DONE, "monday")), ["m-1"], id="visited before"),
        pytest.param(
            web(notes=claimed(State.DONE, "managednode/web1", "h")), ["h", UPGRADING], id="upgraded before"
        ),
        pytest.param(web(spec={"upgrade": {"schedule": "0 3 * * *"}}), [UPGRADING], id="upgraded later"),
        pytest.param(web(notes={UPGRADES: "x"}), [UPGRADING], id="marked"),
        pytest.param(web(status=ASKING), [REPAIRING], id="asks for its turn"),
        pytest.param(web(status={"leftDrifts": {"used": "r"}}), [], id="had its turn"),
        pytest.param(
            web(notes=claimed(State.WORKING, "configset/sshd", "c-1")), ["c-1", REPAIRING], id="has its turn"
        ),
        pytest.param(web(notes=claimed(State.DONE, "configset/sshd", "c-1")), ["c-1"], id="its turn is over"),
    ],
)
def test_who_looks_at_a_host(one: ManagedNode, found_by: list[str]) -> None:
    cache = Cache(cast("Client", None), MANAGED_NODES)
    hosts = HostsAhead(cache)
    cache._put(key_of(one), one)
    asked = ("m-1", "h", "c-1", UPGRADING, REPAIRING)
    assert [who for who in asked if hosts.visited_by(who)] == found_by


def test_series_are_resolved_anew_when_hosts_come_go_or_get_other_labels() -> None:
    cache = Cache(cast("Client", None), MANAGED_NODES)
    hosts = HostsAhead(cache)
    seen = []
    for one in (web(), web(2), web(3, status=ASKING), web(4, labels={"a": "b"}), web(5, labels={"a": "b"})):
        cache._put(key_of(one), one)
        seen.append(hosts.labelled)
    cache._remove(ObjectKey("ns", "web1"))
    seen.append(hosts.labelled)
    assert [after != before for before, after in zip([0, *seen], seen, strict=False)] == [
        True, False, False, True, False, True,
    ]  # fmt: skip


def test_hosts_are_found_by_name_with_what_we_wrote_on_them() -> None:
    cache = Cache(cast("Client", None), MANAGED_NODES)
    hosts = HostsAhead(cache)
    cache._put(ObjectKey("ns", "web1"), web())
    hosts.wrote(web(), web(2))
    hosts.wrote(web(2), web(3))
    assert hosts.chosen("ns", ["gone", "web1"]) == [web(3)]
    assert hosts.chosen("elsewhere", ["web1"]) == []
    assert hosts.everyone("ns") == [web()]
    assert hosts.everyone("elsewhere") == []
    cache._put(ObjectKey("ns", "web1"), web(2))
    assert hosts.get(ObjectKey("ns", "web1")) == web(3), "that is one of ours, and not the last"
    cache._put(ObjectKey("ns", "web1"), web(4))
    for _ in range(2):
        assert hosts.get(ObjectKey("ns", "web1")) == web(4)
    hosts.wrote(web(4), web(5))
    cache._remove(ObjectKey("ns", "web1"))
    assert hosts.get(ObjectKey("ns", "web1")) is None


def ordered(name: str, uid: str = "m-1", phase: str = "") -> NodeTask:
    reason = {"reason": {"kind": "NodeMaintenance", "name": "monday", "uid": uid}} if uid else {}
    meta = {"name": name, "namespace": "ns"}
    return msgspec.convert({"metadata": meta, "spec": reason, "status": {"phase": phase}}, NodeTask)


def test_tasks_that_we_made_are_known_before_the_cache_shows_them() -> None:
    cache = Cache(cast("Client", None), NODE_TASKS)
    tasks = TasksAhead(cache)
    for one in (ordered("known"), ordered("other", "m-2"), ordered("nobody", "")):
        cache._put(key_of(one), one)
    assert tasks.of("m-1") == [ordered("known")]
    tasks.made(ordered("made"))
    tasks.made(ordered("lost"))
    assert tasks.of("m-1") == [ordered("known"), ordered("made"), ordered("lost")]
    assert tasks.of("m-2") == [ordered("other", "m-2")]
    tasks.gone(ObjectKey("ns", "lost"))
    tasks.gone(ObjectKey("ns", "never"))
    cache._put(ObjectKey("ns", "made"), ordered("made", phase="Running"))
    assert tasks.of("m-1") == [ordered("known"), ordered("made", phase="Running")]
    cache._remove(ObjectKey("ns", "made"))
    assert tasks.of("m-1") == [ordered("known")], "it was shown, and is gone"
