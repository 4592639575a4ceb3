"""The evil host within what it may do: odd names, forged owners of fields, floods and large reports."""

from __future__ import annotations

from typing import Any

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.verbs import Client
from support.agent_process import Api
from support.either import Place
from support.host_attempts import APPLY, OURS, event, node
from support.joined_host import ask

REFUSED = {400, 403, 404, 405, 413, 422}
TRICKS = (
    "b.\x1b[31mred", "b.a b", "b.\u202eevil", "b.a\nb", "b.A", "b.../../secrets/x", "b.a%2fb", "b.", "b..",
    "b.\u0085", "b.*", "b.x=y,z", "b." + "x" * 300,
)  # fmt: skip


async def test_its_events_have_plain_names(place: Place, me: Client, api: Api) -> None:
    """Kubernetes takes almost any name of an Event, and people see them in their terminals."""
    events = f"/api/v1/namespaces/{place.namespace}/events"
    made = [
        name
        for name in TRICKS
        if (await ask(me, "POST", events, event(name, place.namespace, "b"))).code not in REFUSED
    ]
    assert made == []
    for base in ("b.", "b.x-"):
        body = event("", place.namespace, "b")
        body["metadata"] = {"generateName": base}
        assert (await ask(me, "POST", events, body)).code == 200
    body["metadata"] = {"generateName": "a."}
    assert (await ask(me, "POST", events, body)).code == 403
    del api


async def test_forged_owners_of_fields_change_nothing_but_themselves(
    place: Place, me: Client, api: Api
) -> None:
    here = place.namespace
    mine = f"{OURS}/{here}/managednodes/b"
    theirs = node("b", here, metadata={"labels": {"role": "web"}}, spec={"domain": "good.test"})
    people = f"{mine}?fieldManager=people"
    assert (await ask(api.client, "PATCH", people, theirs, APPLY)).code == 200
    everything = {"f:metadata": {"f:labels": {"f:role": {}}}, "f:spec": {"f:domain": {}}}
    forged: list[Any] = [
        [{}],
        [],
        [{"manager": "people", "operation": "Apply", "apiVersion": "common.nodemanager/v1",
          "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}],
        [{"manager": "b", "operation": "Apply", "apiVersion": "common.nodemanager/v1",
          "fieldsType": "FieldsV1", "fieldsV1": everything}],
    ]  # fmt: skip
    for fields in forged:
        await ask(me, "PATCH", mine, {"metadata": {"managedFields": fields}})
        await ask(me, "PATCH", f"{mine}/status", {"metadata": {"managedFields": fields}, "status": {}})
        empty = node("b", here)
        applied = await ask(me, "PATCH", f"{mine}?fieldManager=b&force=true", empty, APPLY)
        taken = await ask(me, "PATCH", f"{mine}?fieldManager=people&force=true", empty, APPLY)
        assert {applied.code, taken.code} <= {200, 403}
        found = await api.client.get(MANAGED_NODES, "b", here)
        assert (found.metadata.labels.get("role"), found.spec.domain) == ("web", "good.test")
        assert (await ask(api.client, "PATCH", f"{people}&force=true", theirs, APPLY)).code == 200


async def test_its_report_is_bounded(place: Place, me: Client) -> None:
    """What all hosts and the operator keep in memory of it."""
    here = place.namespace
    nodes = f"{OURS}/{here}/managednodes"
    assert (await ask(me, "POST", nodes, node("b", here))).code == 200

    async def told(count: int) -> int:
        status = {"fileBackups": {f"/{number:0100d}": "0" * 64 for number in range(count)}}
        return (await ask(me, "PATCH", f"{nodes}/b/status", {"status": status})).code

    assert await told(1000) == 200
    assert await told(15_000) in {403, 413, 500}  # etcd says so in a way that kube-apiserver does not know
    assert await told(1000) == 200
