"""How much a host may say, and for how long, where it may say something; refused by both servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nodemanager.client.verbs import Client
from support.agent_process import Api
from support.either import Place
from support.host_attempts import APPLY, LEASES, OURS, RBAC, event, lease, meta, node
from support.joined_host import MERGE, ask, guard, join, ran

FORBIDDEN = 403
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0"}
ABOUT_ANOTHER = {"kind": "ManagedNode", "name": "a", "uid": "1"}
YEAR = 8760 * 3600


STORIES: dict[str, dict[str, Any]] = {
    "long": {"message": "x" * 1025},
    "long in bytes": {"message": "\u00e9" * 600},
    "of megabytes": {"message": "x" * 2_900_000},
    "reason": {"reason": "x" * 129},
    "action": {"action": "x" * 129},
    "type": {"type": "Lie"},
    "component": {"source": {"component": "x" * 300}},
    "as the operator": {"source": {"component": "nodemanager-operator"}},
    "reported by the operator": {"reportingComponent": "nodemanager-operator"},
    "on another host": {"source": {"host": "a"}},
    "by another instance": {"reportingInstance": "a"},
    "related": {"related": ABOUT_ANOTHER},
    "series": {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}},
    "labels": {"metadata": {"labels": {"a": "b"}}},
    "annotations": {"metadata": {"annotations": {"a": "x" * 200_000}}},
    "finalizers": {"metadata": {"finalizers": ["example.com/stay"]}},
    "owners": {"metadata": {"ownerReferences": [OWNER]}},
    "another group": {"involvedObject": {"apiVersion": "evil.test/v1"}},
    "field path": {"involvedObject": {"fieldPath": "x" * 100_000}},
    "uid": {"involvedObject": {"uid": "x" * 100_000}},
}


def told(name: str, place: Place, story: dict[str, Any]) -> dict[str, Any]:
    """Return an Event of host b about itself, with something in it that does not belong there."""
    good = event(name, place.namespace, "b")
    mixed = {key: {**good.get(key, {}), **value} for key, value in story.items() if isinstance(value, dict)}
    return {**good, **story, **mixed}


async def test_it_tells_short_stories_about_itself_alone(place: Place, me: Client) -> None:
    events = f"/api/v1/namespaces/{place.namespace}/events"
    assert (await ask(me, "POST", events, told("b.good", place, {"message": "x" * 1024}))).code == 200
    said = {"component": "nodemanager", "host": "b"}
    whole = {"source": said, "reportingComponent": "nodemanager", "reportingInstance": "b", "count": 1}
    assert (await ask(me, "POST", events, told("b.whole", place, whole))).code == 200
    taken = {}
    for number, (what, story) in enumerate(STORIES.items()):
        other = f"{events}/b.applied{number}?fieldManager=me"
        replies = [
            await ask(me, "POST", events, told(f"b.{number}", place, story)),
            await ask(me, "PATCH", f"{events}/b.good", story, MERGE),
            await ask(me, "PATCH", other, told(f"b.applied{number}", place, story), APPLY),
        ]
        if any(reply.code not in (FORBIDDEN, 413) for reply in replies):
            taken[what] = [(reply.code, reply.message[:200]) for reply in replies]
    assert taken == {}


async def test_its_tokens_are_for_the_api_and_for_a_year_at_most(place: Place, me: Client, api: Api) -> None:
    token = f"/api/v1/namespaces/{place.namespace}/serviceaccounts/nodemanager-b/token"
    of_api = "https://kubernetes.default.svc"
    asked: list[tuple[dict[str, Any], int]] = [
        ({}, 200),
        ({"expirationSeconds": YEAR}, 200),
        ({"expirationSeconds": YEAR + 1}, FORBIDDEN),
        ({"expirationSeconds": 2**32}, FORBIDDEN),
        ({"audiences": [of_api]}, 200),
        ({"audiences": ["vault"]}, FORBIDDEN),
        ({"audiences": [of_api, "sts.amazonaws.com"]}, FORBIDDEN),
        ({"audiences": [f"{of_api}.evil.test/x"]}, FORBIDDEN),
    ]
    found = [(spec, (await ask(me, "POST", token, {"spec": spec})).code) for spec, _ in asked]
    assert found == asked
    reply = await ask(me, "POST", token, {"spec": {"audiences": ["vault"]}})
    assert "nodemanager.io/token-audiences" in reply.message
    mine = f"/api/v1/namespaces/{place.namespace}"
    note = {"metadata": {"annotations": {"nodemanager.io/token-audiences": "issuer,vault"}}}
    assert (await ask(api.client, "PATCH", mine, note)).code == 200
    async with asyncio.timeout(90):  # a kube-apiserver reads namespaces from a cache of its own
        while (await ask(me, "POST", token, {"spec": {"audiences": ["vault"]}})).code != 200:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)
    assert (await ask(me, "POST", token, {"spec": {"audiences": ["other"]}})).code == FORBIDDEN


async def test_it_hangs_nothing_on_leases_that_is_not_needed(place: Place, me: Client) -> None:
    leases = f"{LEASES}/{place.namespace}/leases"
    notes = {"nodemanager.io/instance": "0123456789abcdef"}
    for name in ("nodemanager-b", "db"):
        for more in ({"labels": {"a": "b"}}, {"annotations": {"a": "b"}},
                     {"annotations": {"nodemanager.io/instance": "x" * 65}}):  # fmt: skip
            body = lease(name, place.namespace, "b")
            body["metadata"] |= more
            reply = await ask(me, "POST", leases, body)
            assert (reply.code, "labels and annotations" in reply.message) == (FORBIDDEN, True), (more, reply)
        body["metadata"] |= {"annotations": notes}
        assert (await ask(me, "POST", leases, body)).code == 200
        reply = await ask(
            me, "PATCH", f"{leases}/{name}", {"metadata": {"annotations": {"a": "x" * 200_000}}}
        )
        assert reply.code == FORBIDDEN
        beat = {
            "metadata": {"annotations": {"nodemanager.io/instance": "1"}},
            "spec": {"holderIdentity": "b"},
        }
        assert (await ask(me, "PATCH", f"{leases}/{name}", beat)).code == 200


async def test_its_notes_are_short(place: Place, me: Client, api: Api) -> None:
    here = place.namespace
    nodes = f"{OURS}/{here}/managednodes"
    assert (await ask(me, "POST", nodes, node("b", here))).code == 200
    theirs = {"metadata": {"annotations": {"people.example/large": "x" * 100_000}}}
    assert (await ask(api.client, "PATCH", f"{nodes}/b", theirs)).code == 200
    for notes in ({"a": "x" * 4097}, {f"n{number}": "" for number in range(65)}):
        reply = await ask(me, "PATCH", f"{nodes}/b", {"metadata": {"annotations": notes}})
        assert (reply.code, "annotations" in reply.message) == (FORBIDDEN, True), reply
    assert (await ask(me, "PATCH", f"{nodes}/b", {"metadata": {"annotations": {"a": "b"}}})).code == 200


async def test_it_creates_the_one_secret_that_it_was_given(place: Place, api: Api, tmp_path: Path) -> None:
    """With any interface in the name there would be no end to them."""
    here = place.namespace
    await guard(place, tmp_path)
    role = {**meta("keys"), "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["wg-wg0-c"]},
    ]}  # fmt: skip
    subject = {"kind": "ServiceAccount", "name": "nodemanager-c", "namespace": here}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "keys"}
    binding = {**meta("keys"), "roleRef": ref, "subjects": [subject]}
    secrets = f"/api/v1/namespaces/{here}/secrets"
    async with (await join(place, tmp_path, "c")).client() as me:
        for folder, body in (("roles", role), ("rolebindings", binding)):
            assert (await ask(api.client, "POST", f"{RBAC}/namespaces/{here}/{folder}", body)).code == 200
        for name in ("wg-wg1-c", f"wg-{'x' * 60}-c"):
            reply = await ask(me, "POST", secrets, meta(name))
            assert (reply.code, "WireGuard key" in reply.message) == (FORBIDDEN, True), reply
        large: list[dict[str, Any]] = [
            {"data": {"a": "QUFB" * 1000}}, {"data": {f"k{number}": "" for number in range(9)}},
            {"stringData": {"a": "x" * 500_000}}, {"immutable": True},
        ]  # fmt: skip
        for more in large:
            reply = await ask(me, "POST", secrets, {**meta("wg-wg0-c"), **more})
            assert (reply.code, "of type Opaque" in reply.message) == (FORBIDDEN, True), reply
        good = {**meta("wg-wg0-c"), "data": {"privateKey": "QUFB" * 11, "publicKey": "QUFB" * 11}}
        assert (await ask(me, "POST", secrets, good)).code == 200


async def test_it_marks_its_node_as_cordoned_and_no_more(place: Place, me: Client, api: Api) -> None:
    """By annotations of Nodes, networks learn where packets go."""
    assert (await ask(api.client, "POST", "/api/v1/nodes", {"metadata": {"name": "b"}})).code == 200
    try:
        wrong = {"metadata": {"annotations": {"flannel.alpha.coreos.com/public-ip": "10.0.0.1"}}}
        reply = await ask(me, "PATCH", "/api/v1/nodes/b", wrong)
        assert (reply.code, "may only cordon" in reply.message) == (FORBIDDEN, True), reply
        marks = {"upgrade.nodemanager/cordoned-by": "us"}
        cordon = {"metadata": {"annotations": marks}, "spec": {"unschedulable": True}}
        assert (await ask(me, "PATCH", "/api/v1/nodes/b", cordon)).code == 200
    finally:
        assert (await ask(api.client, "DELETE", "/api/v1/nodes/b")).code == 200


async def test_nobody_reads_its_stories_as_those_of_another(place: Place, me: Client, api: Api) -> None:
    """It may say anything of itself, also that it has the uid of another host."""
    here = place.namespace
    events = f"/api/v1/namespaces/{here}/events"
    for name in ("a", "b"):
        assert (await ask(api.client, "POST", f"{OURS}/{here}/managednodes", node(name, here))).code == 200
    uid = (await api.node("a")).metadata.uid
    forged = told("b.forged", place, {"involvedObject": {"uid": uid}, "message": "all is well, go home"})
    assert (await ask(me, "POST", events, forged)).code == 200
    true = event("a.true", here, "a") | {"message": "it burns", "source": {"component": "c", "host": "a"}}
    true["involvedObject"]["uid"] = uid
    assert (await ask(api.client, "POST", events, true)).code == 200
    shown = await asyncio.to_thread(ran, place, "describe", "mn", "a", "-n", here)
    assert "it burns" in shown.stdout
    assert "c, a" in shown.stdout
    assert "go home" not in shown.stdout
