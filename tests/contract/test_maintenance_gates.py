"""Gates of health that ask others: objects, addresses, Prometheus. On both servers, with real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.cli.maintenance import judging, reading
from nodemanager.controllers import gate_asking
from nodemanager.controllers.node_maintenances import reconciling
from nodemanager.fleet.maintenance import questions
from nodemanager.kube import conditions, core, errors
from nodemanager.kube.objects import Resource, Untyped
from support.either import Place
from support.maintenance_site import Site, site_at
from support.scripted_server import Exchange, serve

GADGETS: Resource[Untyped] = Resource("clients.test", "v1", "Gadget", "gadgets", dict)


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(questions, "FRESH", timedelta(seconds=0.5))
    monkeypatch.setattr(gate_asking, "ASK_SECONDS", 1.0)


@pytest.fixture(name="site")
async def _site(place: Place) -> AsyncIterator[Site]:
    async with site_at(place, disruptive=False) as site:
        yield site


def waits_for(reason: str) -> Any:
    return lambda found: [one for one in found.status.waiting if one.reason == reason]


def first_wait(found: NodeMaintenance) -> str:
    return found.status.waiting[0].object


async def test_a_host_begins_and_ends_when_its_addresses_answer_as_wanted(site: Site) -> None:
    """Until then it says for what it waits, in the status and to whoever asks why."""
    host = await site.host("a")
    answers: dict[str, Any] = {"code": 503, "up": "0"}

    async def answer(asked: Exchange) -> None:
        if not asked.target.startswith("/api/v1/query"):
            await asked.answer(answers["code"], b"")
            return
        result = [{"metric": {}, "value": [1.5, answers["up"]]}]
        await asked.json({"status": "success", "data": {"resultType": "vector", "result": result}})

    async with serve(answer) as endpoint, site.operator():
        up = {"url": endpoint.url, "query": 'up{node="$(host)"}', "operator": "==", "value": "1"}
        await site.maintenance(
            health={
                "before": [{"http": {"url": f"{endpoint.url}/$(host)/ready"}}],
                "after": [{"name": "shop", "prometheus": up, "timeout": "10m"}],
            }
        )
        waits = await site.until(waits_for("GateBefore"))
        assert first_wait(waits) == f"http {endpoint.url}/{host}/ready: answered 503, not 200"
        assert site.agents.taken == []
        around = await reading.read_maintenances(site.client, site.namespace, [waits])
        judged = judging.judge(waits, around)
        assert [(one.reason, one.object) for one in judged.hosts.waits.values()] == [
            ("GateBefore", first_wait(waits))
        ]
        answers["code"] = 200
        proves = await site.until(
            lambda found: (
                "shop: 1 of 1 results are not == 1, such as 0"
                in [one.object for one in waits_for("Proving")(found)]
            )
        )
        assert proves.status.phase == "Running"
        around = await reading.read_maintenances(site.client, site.namespace, [proves])
        assert [one.object for one in judging.judge(proves, around).hosts.waits.values()] == [
            "shop: 1 of 1 results are not == 1, such as 0"
        ]
        asked = next(one for one in endpoint.requests if "query" in one.query)
        assert asked.query["query"] == f'up{{node="{host}"}}'
        assert not {"authorization", "cookie"} & set(asked.headers)
        answers["up"] = "1"
        await site.until_phase("Succeeded")
    await site.nothing_is_left()


async def test_an_address_that_hangs_delays_its_own_maintenance_only(site: Site) -> None:
    await site.host("a", role="slow")
    await site.host("b", role="quick")

    async def hang(asked: Exchange) -> None:
        await asked.hang()

    def series(role: str) -> dict[str, Any]:
        return {"selector": {"matchLabels": {"role": role}}}

    async with serve(hang) as endpoint, site.operator():
        gates = {"before": [{"http": {"url": f"{endpoint.url}/{number}"}} for number in range(9)]}
        await site.maintenance("slow", series=series("slow"), health=gates)
        await site.maintenance("quick", series=series("quick"))
        await site.until_phase("Succeeded", name="quick")
        slow = await site.until(waits_for("GateUnanswered"), "slow")
        assert first_wait(slow).endswith("/0: no answer within 1 s")
        assert len(endpoint.requests) <= 9


async def test_an_object_is_asked_with_rights_that_somebody_gives(site: Site) -> None:
    await site.host("a")
    gate = {"apiVersion": "clients.test/v1", "kind": "Gadget", "name": "shop", "cel": "object.spec.size >= 2"}
    await site.client.create(GADGETS, {"metadata": {"name": "shop"}, "spec": {"size": 1}}, site.namespace)
    async with site.operator():
        await site.maintenance(health={"before": [{"object": gate}]})
        refused = await site.until(waits_for("GateForbidden"))
        assert first_wait(refused) == (
            f"Gadget {site.namespace}/shop: cannot read gadgets.clients.test {site.namespace}/shop: let the"
            " operator get gadgets.clients.test"
        )
        rule = {"apiGroups": ["clients.test"], "resources": ["gadgets"], "verbs": ["get"]}
        await site.client.create(core.ROLES, {"metadata": {"name": "gates"}, "rules": [rule]}, site.namespace)
        account = {"kind": "ServiceAccount", "name": "nodemanager-operator", "namespace": site.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gates"}
        binding = {"metadata": {"name": "gates"}, "subjects": [account], "roleRef": role}
        await site.client.create(core.ROLE_BINDINGS, binding, site.namespace)
        small = await site.until(waits_for("GateBefore"))
        assert first_wait(small).endswith("shop: object.spec.size >= 2 is not true")
        await site.client.delete(GADGETS, "shop", site.namespace)
        await site.until(lambda found: first_wait(found).endswith("shop: there is none"))
        await site.client.create(GADGETS, {"metadata": {"name": "shop"}, "spec": {"size": 2}}, site.namespace)
        await site.until_phase("Succeeded")


async def test_a_gate_that_cannot_be_asked_is_named_and_nothing_begins(site: Site) -> None:
    await site.host("a")
    gate = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "cel": "object.data.go =="}
    async with site.operator():
        await site.maintenance(health={"after": [{"object": gate}]})
        found = await site.until(lambda one: one.status.conditions)
        said = conditions.get(found.status.conditions, "Valid")
        assert said is not None
        assert (said.status, said.reason) == ("False", "GateInvalid")
        assert said.message.startswith("health.after[0].object.cel: Syntax error")
        await site.until(lambda one: one.status.phase == "Pending")


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (
            {"object": {"apiVersion": "v1", "kind": "Secret", "name": "x", "cel": "object.data.a == 'b'"}},
            "must not be Secret",
        ),
        ({"prometheus": {"url": "http://p", "query": "up", "operator": "<"}}, "goes with value"),
        ({"prometheus": {"url": "http://p", "query": "up", "emptyHolds": True}}, "goes with operator"),
    ],
)
async def test_what_makes_no_sense_is_refused_when_it_is_written(
    site: Site, gate: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.Invalid, match=said):
        await site.maintenance(health={"before": [gate]})
    with pytest.raises(errors.NotFound):
        await site.client.get(NODE_MAINTENANCES, "monday", site.namespace)
