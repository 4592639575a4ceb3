"""The Leases of groups that the operator holds for hosts: one at a time, written once, given back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.controllers.node_maintenances.upgrades.group_locks import FIRST_SECONDS, GroupLocks
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube.objects import ObjectMeta
from support import virtual_time
from support.lease_api import LeaseApi, Link
from support.model_api import Answer

EPOCH = datetime(2026, 6, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Leases:
    """Many Leases on one API, each by its path; counts what is written."""

    def __init__(self) -> None:
        self.by_path: dict[str, LeaseApi] = {}
        self.writes = 0

    def handle(self, request: Request) -> Answer:
        path = request.target.partition("?")[0]
        if request.method == "POST":
            path = f"{path}/{msgspec.json.decode(request.body)['metadata']['name']}"
        self.writes += request.method != "GET"
        return self.by_path.setdefault(path, LeaseApi()).handle(request)

    def spec(self, group: str, namespace: str = "") -> Mapping[str, Any]:
        found: Mapping[str, Any]
        [found] = [
            one.lease["spec"]
            for path, one in self.by_path.items()
            if path.endswith(f"/{namespace}/leases/{group}" if namespace else f"/leases/{group}")
            and one.lease is not None
        ]
        return found

    def holder(self, group: str, namespace: str = "") -> str | None:
        found: str | None = self.spec(group, namespace).get("holderIdentity")
        return found


def locks(api: Leases) -> GroupLocks:
    link = Link(api)  # type: ignore[arg-type]  # it is asked for answers only
    return GroupLocks(Client(link), now)


def now() -> datetime:
    return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())


def host(name: str, namespace: str = "test") -> ManagedNode:
    return ManagedNode(metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}"))


def visit(group: str = "web", lasts: timedelta = HOUR) -> Claim:
    begun = now()
    return Claim("managednode/a", "u", "u", "r1", 0, State.WORKING, begun, begun, begun + lasts, group=group)


@virtual_time.test
async def test_of_two_hosts_of_a_group_one_has_the_lease_and_the_other_is_told_which() -> None:
    api = Leases()
    one = locks(api)
    assert await one.take(host("a"), "web") == ""
    assert await one.take(host("b"), "web") == "nodemanager-operator:a"
    assert await one.take(host("b"), "db") == ""
    assert (api.holder("web"), api.holder("db")) == ("nodemanager-operator:a", "nodemanager-operator:b")
    assert api.spec("web")["leaseDurationSeconds"] == FIRST_SECONDS


@virtual_time.test
async def test_groups_of_two_namespaces_are_two() -> None:
    api = Leases()
    one = locks(api)
    assert await one.take(host("a", "east"), "web") == ""
    assert await one.take(host("a", "west"), "web") == ""
    await one.give_back(host("a", "east"), "web")
    assert api.holder("web", "east") is None
    assert api.holder("web", "west") == "nodemanager-operator:a"


@virtual_time.test
async def test_a_lease_that_is_no_lock_is_never_taken() -> None:
    api = Leases()
    assert "choose another group" in await locks(api).take(host("a"), "nodemanager-heartbeats")
    assert api.by_path == {}


@virtual_time.test
async def test_the_lease_of_a_visit_is_written_once_for_as_long_as_that_may_take() -> None:
    api = Leases()
    one = locks(api)
    claim = visit()
    await one.take(host("a"), "web")
    assert await one.keep(host("a"), claim, now())
    lasts = HOUR + upgrade_tasks.LEASE_AFTERWARDS
    assert api.spec("web")["leaseDurationSeconds"] == lasts.total_seconds()
    written = api.writes
    await asyncio.sleep(1800)
    assert await one.keep(host("a"), claim, now())
    assert api.writes == written
    await one.keep(host("b"), visit("db", -HOUR), now())
    assert api.spec("db")["leaseDurationSeconds"] == upgrade_tasks.LEASE_AFTERWARDS.total_seconds()


@virtual_time.test
async def test_a_lease_that_somebody_took_away_is_not_kept() -> None:
    api = Leases()
    one = locks(api)
    assert await one.keep(host("a"), visit(), now())
    [lease] = api.by_path.values()
    assert lease.lease is not None
    lease.lease["spec"]["holderIdentity"] = "other"
    lease.touch()
    assert await one.take(host("a"), "web") == "other"
    assert not await one.keep(host("a"), visit(), now())


@virtual_time.test
async def test_the_next_operator_goes_on_with_the_lease_and_no_other_host_gets_it() -> None:
    api = Leases()
    claim = visit()
    assert await locks(api).keep(host("a"), claim, now())
    later = locks(api)
    assert await later.keep(host("a"), claim, now())
    assert not await later.keep(host("b"), claim, now())
    assert not await later.keep(host("b"), claim, now())
    assert api.holder("web") == "nodemanager-operator:a"


@virtual_time.test
async def test_a_lease_that_was_given_back_is_free_and_has_to_be_written_again() -> None:
    api = Leases()
    one = locks(api)
    claim = visit()
    assert await one.keep(host("a"), claim, now())
    await one.give_back(host("a"), "web")
    assert api.holder("web") is None
    assert await one.take(host("a"), "web") == ""
    assert await one.keep(host("a"), claim, now())
    assert api.spec("web")["leaseDurationSeconds"] > FIRST_SECONDS, "not only for the first moment"
    await one.give_back(host("b"), "web")
    assert api.holder("web") == "nodemanager-operator:a", "only who has it gives it back"


@virtual_time.test
async def test_nothing_is_remembered_of_a_lease_that_was_given_back() -> None:
    one = locks(Leases())
    await one.keep(host("a"), visit(), now())
    await one.give_back(host("a"), "web")
    assert (one._leases, one._kept) == ({}, set())


@pytest.mark.parametrize("cleared", [False, True])
@virtual_time.test
async def test_who_has_a_lease_is_named_even_if_nobody_is(cleared: bool) -> None:
    api = Leases()
    one = locks(api)
    await one.take(host("a"), "web")
    [lease] = api.by_path.values()
    assert lease.lease is not None
    if cleared:  # by a person, who left the rest of it
        lease.lease["spec"]["holderIdentity"] = ""
        lease.touch()
    said = await one.take(host("b"), "web")
    assert said == ("somebody else" if cleared else "nodemanager-operator:a")
