"""The stored rules of aggregating ClusterRoles follow the roles they are made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.client.patches import MergePatch
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.rbac import default_roles
from nodemanager.kube.rbac.roles import aggregated, compile_cluster
from nodemanager.kube.rbac.rules import parse_rules
from nodemanager.server import bootstrap
from nodemanager.server.access import aggregation
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.builtin_kinds import BUILTIN, CLUSTER_ROLES
from nodemanager.server.kinds.resources import Catalogue
from nodemanager.server.verbs import stored
from support.embedded import Embedded, serving
from support.memory_store import MemoryStore
from support.rbac_objects import role, rule
from support.scripted_server import until

ROLES: Resource[Untyped] = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", dict, namespaced=False
)


@pytest.fixture
async def server() -> AsyncIterator[Embedded]:
    async with serving() as running:
        keeper = asyncio.create_task(aggregation.keep_roles(running.hub))
        yield running
        keeper.cancel()
        await asyncio.wait({keeper})


def made_of(name: str, *labels: str, **own: str) -> Untyped:
    """Return a role that aggregates what has one of the labels."""
    chosen = [{"matchLabels": {label: "true"}} for label in labels]
    return role(name, labels=own, aggregationRule={"clusterRoleSelectors": chosen})


def rules_in(server: Embedded, name: str) -> list[Untyped]:
    record = server.store.get(CLUSTER_ROLES.key("", name))
    assert record is not None
    found: list[Untyped] = stored.load(CLUSTER_ROLES, record).get("rules") or []
    return found


async def test_rules_come_and_go_with_the_roles_they_are_from(server: Embedded) -> None:
    client, a, b = server.client, rule("get", "pods"), rule("list", "nodes")
    await client.create(ROLES, made_of("all", "x"))
    await client.create(ROLES, role("z", a, b, labels={"x": "true"}))
    await until(lambda: rules_in(server, "all") == [a, b])
    await client.create(ROLES, role("c", b, labels={"x": "true"}))
    await until(lambda: rules_in(server, "all") == [b, a])
    await client.patch(ROLES, "z", "", MergePatch({"metadata": {"labels": {"x": None}}}))
    await until(lambda: rules_in(server, "all") == [b])
    await client.delete(ROLES, "c", "")
    await until(lambda: rules_in(server, "all") == [])


async def test_what_somebody_writes_into_them_does_not_stay(server: Embedded) -> None:
    a, everything = rule("get", "pods"), rule("*", "*")
    await server.client.create(ROLES, role("a", a, labels={"x": "true"}))
    await server.client.create(ROLES, {**made_of("all", "x"), "rules": [everything]})
    await until(lambda: rules_in(server, "all") == [a])
    found = await server.client.get(ROLES, "all", "")
    owners = {one["manager"]: one["operation"] for one in found["metadata"]["managedFields"]}
    assert owners["clusterrole-aggregation-controller"] == "Apply"
    await server.client.patch(ROLES, "all", "", MergePatch({"rules": [everything, a]}))
    await until(lambda: rules_in(server, "all") == [a])


async def test_writing_comes_to_rest(server: Embedded) -> None:
    for name, *labels in (("a", "x", "y"), ("b", "y", "x"), ("c", "x")):
        await server.client.create(ROLES, made_of(name, *labels, **{labels[0]: "true"}))
    await server.client.create(ROLES, role("leaf", rule("get", "pods"), labels={"y": "true"}))
    await until(lambda: all(rules_in(server, name) for name in ("a", "b", "c")))
    assert await aggregation.refill(server.hub) == 0
    await server.client.delete(ROLES, "leaf", "")
    await until(lambda: not any(rules_in(server, name) for name in ("a", "b", "c")))
    assert await aggregation.refill(server.hub) == 0


async def test_the_default_roles_are_filled_at_the_start() -> None:
    hub = Hub(MemoryStore(), Catalogue(BUILTIN))
    await bootstrap.ensure_defaults(hub)
    written = await aggregation.refill(hub)
    assert written == len(aggregated({one["metadata"]["name"]: one for one in default_roles.cluster_roles()}))
    assert await aggregation.refill(hub) == 0
    records = hub.store.list(CLUSTER_ROLES.prefix()).records
    roles = {one["metadata"]["name"]: one for one in (stored.load(CLUSTER_ROLES, each) for each in records)}
    granted = compile_cluster(roles.values(), ()).roles
    assert all(granted[name] == parse_rules(one) for name, one in roles.items())
    assert roles["view"]["rules"][0] in roles["edit"]["rules"]


def test_the_order_is_that_of_selectors_and_names_through_all_levels() -> None:
    x, y, z = (rule("get", name) for name in "xyz")
    roles = {
        "a-top": made_of("a-top", "mid", "leaf"),
        "b-mid": made_of("b-mid", "leaf", mid="true"),
        "c": role("c", x, labels={"mid": "true"}),
        "d": role("d", y, x, labels={"leaf": "true"}),
        "e": role("e", {**z, "resourceNames": []}, labels={"leaf": "true"}),
        "f": role("f", z, labels={"leaf": "true"}),
    }
    assert aggregated(roles) == {"a-top": [y, x, z], "b-mid": [y, x, z]}


LABELS = st.lists(st.sampled_from("xyz"), max_size=2, unique=True)


@settings(deadline=None)
@given(st.lists(st.tuples(LABELS, LABELS, st.integers(0, 3)), max_size=7))
def test_stored_rules_are_a_fixed_point(drawn: list[tuple[list[str], list[str], int]]) -> None:
    roles: dict[str, Any] = {}
    for number, (carried, selected, which) in enumerate(drawn):
        name = f"r{number}"
        labels = dict.fromkeys(carried, "true")
        plain = role(name, rule("get", f"thing{which}"), labels=labels)
        roles[name] = made_of(name, *selected, **labels) if selected else plain
    first = aggregated(roles)
    for name, rules in first.items():
        roles[name]["rules"] = rules
    assert aggregated(roles) == first
    for name, rules in first.items():  # the controller of Kubernetes would find nothing to add
        wanted = {
            str(one)
            for other, found in roles.items()
            if other != name and {"x", "y", "z"} & set(found["metadata"]["labels"]) & _selected(roles[name])
            for one in found["rules"]
        }
        assert {str(one) for one in rules} == wanted


def _selected(aggregating: Untyped) -> set[str]:
    chosen = aggregating["aggregationRule"]["clusterRoleSelectors"]
    return {label for one in chosen for label in one["matchLabels"]}
