"""Deletions that wait for hosts, where the set itself cannot be read any more."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import CONFIG_SETS, FINALIZER, ConfigSet, ConfigSetSpec
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.controllers.pruning import finalizing
from nodemanager.controllers.pruning.finalizing import Finalizing
from nodemanager.controllers.registration import Caches, Wake
from nodemanager.kube.objects import ObjectKey, key_of
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Retry
from support.model_api import Answer
from support.visited_api import VisitedApi

KEY = ObjectKey("nm", "web")
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Api:
    """An API with one set, which a newer version has written."""

    def __init__(self, **meta: Any) -> None:
        known = {"name": "web", "namespace": "nm", "uid": "u", "resourceVersion": "7"}
        self.set = {"metadata": {**known, **meta}, "spec": "of a newer version"}
        self.patches: list[Any] = []

    async def send(self, request: Request) -> Answer:
        if request.method == "PATCH":
            self.patches.append(json.loads(request.body or b""))
        return Answer(200, json.dumps(self.set).encode())


def finalizer_of(api: Api, after: timedelta, said: list[str]) -> Finalizing:
    sets: Any = SimpleNamespace(malformed={KEY: "cannot be read"}, get=lambda _key: None)
    nodes: Any = SimpleNamespace(values=list)
    events: Any = SimpleNamespace(warning=lambda _kind, _obj, reason, _text: said.append(reason))
    transport: Any = api
    return Finalizing(Client(transport), sets, nodes, events, lambda: BEGAN + after)


async def test_a_set_that_cannot_be_read_does_not_stay_for_ever() -> None:
    said: list[str] = []
    api = Api(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["others", FINALIZER])
    waits = await finalizer_of(api, timedelta(minutes=4), said).reconcile(KEY)
    assert waits is not None
    assert (waits.requeue_after, api.patches) == (360.0, [])
    assert await finalizer_of(api, timedelta(minutes=10), said).reconcile(KEY) is None
    assert api.patches == [{"metadata": {"resourceVersion": "7", "finalizers": ["others"]}}]
    assert said == ["PruneTimedOut"]


@pytest.mark.parametrize("meta", [{"finalizers": [FINALIZER]}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
async def test_one_that_is_not_deleted_or_waits_for_others_is_left_alone(meta: dict[str, Any]) -> None:
    api = Api(**meta)
    assert await finalizer_of(api, timedelta(days=1), []).reconcile(KEY) is None
    assert api.patches == []


def test_news_of_a_set_that_cannot_be_read_wake_it() -> None:
    caches: Any = SimpleNamespace(of={CONFIG_SETS: SimpleNamespace(malformed={KEY: "why"})}.get)
    assert [one.key for one in finalizing.on_config_set(Change(KEY, None, None), caches)] == [KEY]


# Sets that can be read

DELETED = "2026-01-01T00:00:00Z"


def a_set(*finalizers: str, prune: bool = True, deleted: bool = False, **more: Any) -> ConfigSet:
    meta = {"name": "web", "namespace": "nm", "uid": "u", "finalizers": list(finalizers)}
    if deleted:
        meta["deletionTimestamp"] = DELETED
    return msgspec.convert({"metadata": {**meta, **more}, "spec": {"prune": prune}}, ConfigSet)


def a_host(name: str, *sets: str, namespace: str = "nm") -> ManagedNode:
    status = {"configsets": [{"name": one} for one in sets]}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}, "status": status}, ManagedNode
    )


class Fleet:
    """One set, and what the operator knows of hosts."""

    def __init__(self, one: ConfigSet, *hosts: ManagedNode) -> None:
        self.api = VisitedApi()
        self.api.put("configsets/nm/web", metadata=msgspec.to_builtins(one.metadata))
        self.said: list[str] = []
        client = Client(self.api)
        sets, nodes = Cache(client, CONFIG_SETS), Cache(client, MANAGED_NODES)
        sets._put(KEY, msgspec.convert({**msgspec.to_builtins(one), **self.known}, ConfigSet))
        for host in hosts:
            nodes._put(key_of(host), host)
        self.caches = Caches("pruning", {CONFIG_SETS: sets, MANAGED_NODES: nodes})

    @property
    def known(self) -> dict[str, Any]:
        return {"metadata": self.api.objects["configsets/nm/web"]["metadata"]}

    def warning(self, _kind: object, _obj: object, reason: str, text: str) -> None:
        self.said.append(f"{reason} {text}")

    async def reconcile(self, after: timedelta = timedelta()) -> float | None:
        context: Any = SimpleNamespace(
            client=Client(self.api), caches=self.caches, events=self, now=lambda: BEGAN + after
        )
        found = await finalizing.build(context)(KEY)
        return found.requeue_after if found is not None else None

    @property
    def finalizers(self) -> list[str]:
        return list(self.api.objects["configsets/nm/web"]["metadata"].get("finalizers", []))


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        pytest.param(a_set("x"), ["x", FINALIZER], id="prunes from now on"),
        pytest.param(a_set("x", FINALIZER), None, id="prunes"),
        pytest.param(a_set("x", FINALIZER, prune=False), ["x"], id="prunes no more"),
        pytest.param(a_set("x", prune=False), None, id="never did"),
        pytest.param(a_set("x", deleted=True), None, id="deleted before"),
    ],
)
async def test_a_set_that_prunes_waits_for_its_hosts_when_it_is_deleted(
    one: ConfigSet, kept: list[str] | None
) -> None:
    fleet = Fleet(one)
    assert await fleet.reconcile() is None
    assert fleet.finalizers == (kept if kept is not None else one.metadata.finalizers)
    assert fleet.api.writes == (["PATCH configsets/nm/web"] if kept is not None else [])


@pytest.mark.parametrize(
    ("hosts", "minutes", "waits", "said"),
    [
        pytest.param([], 0, None, "", id="nobody has it"),
        pytest.param([a_host("a", "other")], 0, None, "", id="hosts have others"),
        pytest.param([a_host("a", "web", namespace="far")], 0, None, "", id="one of that name elsewhere"),
        pytest.param([a_host("a", "web")], 4, 360.0, "", id="it waits"),
        pytest.param(
            [a_host("a", "web"), a_host("b", "web")], 10, None,
            "PruneTimedOut not waited for any longer: a, b; what they have of it is taken back when they"
            " return",
            id="not for ever",
        ),
    ],
)  # fmt: skip
async def test_a_deleted_set_goes_when_hosts_have_taken_it_back_or_its_time_is_over(
    hosts: list[ManagedNode], minutes: int, waits: float | None, said: str
) -> None:
    fleet = Fleet(a_set("x", FINALIZER, deleted=True), *hosts)
    assert await fleet.reconcile(timedelta(minutes=minutes)) == waits
    assert fleet.finalizers == (["x", FINALIZER] if waits is not None else ["x"])
    assert fleet.said == ([said] if said else [])


async def test_a_set_that_is_gone_or_that_others_write_meanwhile() -> None:
    fleet = Fleet(a_set("x"))
    fleet.api.put("configsets/nm/web", metadata={"labels": {"a": "b"}})
    with pytest.raises(Retry):
        await fleet.reconcile()
    del fleet.api.objects["configsets/nm/web"]
    assert await fleet.reconcile() is None
    fleet.caches.of(CONFIG_SETS)._remove(KEY)
    assert await fleet.reconcile() is None
    fleet.caches.of(CONFIG_SETS).malformed[KEY] = "cannot be read"
    assert await fleet.reconcile() is None


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, a_set(), True),
        (a_set(), None, False),
        (a_set(), a_set(generation=2), False),
        (a_set(), a_set(prune=False), True),
        (a_set(), a_set(FINALIZER), True),
        (a_set(), a_set("x"), False),
        (a_set(), a_set(deleted=True), True),
        (a_set(), msgspec.structs.replace(a_set(), spec=ConfigSetSpec(prune=True, prune_timeout="1h")), True),
    ],
)
def test_a_set_is_woken_when_its_end_may_be_another(
    old: ConfigSet | None, new: ConfigSet | None, wakes: bool
) -> None:
    found = [one.key for one in finalizing.on_config_set(Change(KEY, old, new), Fleet(a_set()).caches)]
    assert found == ([KEY] if wakes else [])


@pytest.mark.parametrize(
    ("one", "wakes"),
    [
        (a_set(FINALIZER, deleted=True), True),
        (a_set(deleted=True), True),
        (a_set(FINALIZER), False),
        (a_set("x", prune=False, deleted=True), False),
    ],
)
def test_a_host_wakes_the_sets_of_its_namespace_that_wait(one: ConfigSet, wakes: bool) -> None:
    caches = Fleet(one).caches
    for namespace, woken in (("nm", wakes), ("far", False)):
        found = list(finalizing.on_node(Change(ObjectKey(namespace, "a"), None, None), caches))
        assert found == ([Wake(KEY, finalizing.SETTLE_SECONDS)] if woken else [])
