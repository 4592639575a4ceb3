"""What a host that was broken into may try beyond the plain verbs; refused by both servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodemanager.client.verbs import Client
from support.agent_process import Api
from support.either import Place
from support.host_attempts import APPLY, LEASES, OURS, event, lease, meta, node
from support.joined_host import ask

FORBIDDEN = 403
NOBODY = "00000000-0000-0000-0000-000000000000"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": NOBODY}
TOKEN_OF = "kubernetes.io/service-account.name"
SINCE = {"lastTransitionTime": "2026-01-01T00:00:00Z"}


async def test_it_acts_as_nobody_else(place: Place, me: Client, tmp_path: Path) -> None:
    del me  # its credential is what is used
    somebody = f"system:serviceaccount:{place.namespace}:nodemanager-operator"
    for flags in (("--as", somebody), ("--as", "b", "--as-group", "system:masters"), ("--as", "admin")):
        told = place.refused("--kubeconfig", str(tmp_path / "b" / "kubeconfig"), *flags, "get", "configsets")
        assert "cannot impersonate" in told or "is not allowed to impersonate" in told, told


@pytest.mark.parametrize(
    "trick",
    [
        pytest.param({"type": "kubernetes.io/service-account-token"}, id="token"),
        pytest.param({"type": "kubernetes.io/dockerconfigjson"}, id="other type"),
        pytest.param({"metadata": {"annotations": {"example.com/copy-of": "password"}}}, id="annotation"),
        pytest.param({"metadata": {"labels": {"example.com/secret-type": "cluster"}}}, id="label"),
        pytest.param({"metadata": {"ownerReferences": [OWNER]}}, id="owner"),
        pytest.param({"metadata": {"finalizers": ["example.com/stay"]}}, id="finalizer"),
    ],
)
async def test_no_controller_fills_its_secret_with_what_is_anothers(
    place: Place, me: Client, trick: dict[str, Any]
) -> None:
    """Of a Secret of one type, Kubernetes makes a token of whichever account an annotation names."""
    own = meta("wg-wg0-b", place.namespace, **trick.get("metadata", {}))
    body = {**own, "type": trick.get("type", "Opaque"), "data": {".dockerconfigjson": "e30="}}
    if "token" in body["type"]:
        body["metadata"]["annotations"] = {TOKEN_OF: "nodemanager-operator"}
    secrets = f"/api/v1/namespaces/{place.namespace}/secrets"
    reply = await ask(me, "POST", secrets, body)
    assert (reply.code, "of type Opaque, without" in reply.message) == (FORBIDDEN, True), reply
    applied = {"apiVersion": "v1", "kind": "Secret", **body}
    reply = await ask(me, "PATCH", f"{secrets}/wg-wg0-b?fieldManager=me", applied, APPLY)
    assert reply.code == FORBIDDEN
    assert (
        await ask(me, "POST", secrets, {**meta("wg-wg0-b", place.namespace), "type": "Opaque"})
    ).code == 200


async def test_it_says_of_nothing_how_long_it_stays(place: Place, me: Client, api: Api) -> None:
    """What has an owner that is not there is deleted: it would make its ManagedNode anew, without spec."""
    here = place.namespace
    nodes, leases = f"{OURS}/{here}/managednodes", f"{LEASES}/{here}/leases"
    lives: list[dict[str, Any]] = [{"ownerReferences": [OWNER]}, {"finalizers": ["example.com/stay"]}]
    for life in lives:
        owned = lease("db", here, "b")
        owned["metadata"] |= life
        for folder, body in ((nodes, node("b", here, metadata=life)), (leases, owned)):
            reply = await ask(me, "POST", folder, body)
            assert (reply.code, "how long" in reply.message) == (FORBIDDEN, True), (body, reply)
    assert (await ask(me, "POST", nodes, node("b", here))).code == 200
    assert (await ask(me, "POST", leases, lease("db", here, "b"))).code == 200
    held = {"metadata": {"finalizers": ["example.com/theirs"]}}
    for target in (f"{nodes}/b", f"{leases}/db"):
        assert (await ask(api.client, "PATCH", target, held)).code == 200
        for life in (*lives, {"finalizers": None}):
            reply = await ask(me, "PATCH", target, {"metadata": life})
            assert (reply.code, "how long" in reply.message) == (FORBIDDEN, True), (target, life, reply)
        free = {"metadata": {"finalizers": None}}
        assert (await ask(api.client, "PATCH", target, free)).code == 200
    status = await ask(
        me, "PATCH", f"{nodes}/b/status", {"metadata": {"ownerReferences": [OWNER]}, "status": {}}
    )
    assert status.code in {200, FORBIDDEN}  # it is not of the status: left out, or refused
    found = (await api.node("b")).metadata
    assert not found.owner_references


async def test_it_takes_no_name_of_anothers_event(place: Place, me: Client) -> None:
    """Drifts are told by Events of known names: whoever has the name first keeps them from being told."""
    here = place.namespace
    events = f"/api/v1/namespaces/{here}/events"
    for name in ("a.0123abcd-00000001", "b.c.0123abcd-00000001", "a-b.1", "ab.1", "b", ".b", "x"):
        reply = await ask(me, "POST", events, event(name, here, "b"))
        assert reply.code in {FORBIDDEN, 422}, name  # a name that nothing can have is invalid
        assert reply.code == 422 or "named after it" in reply.message, (name, reply)
    for name in ("b.0123abcd-00000001", "b.17f0a"):
        assert (await ask(me, "POST", events, event(name, here, "b"))).code == 200, name


async def test_its_token_names_nothing_that_it_is_not(place: Place, me: Client, api: Api) -> None:
    name = f"k{place.namespace[-8:]}"
    assert (await ask(api.client, "POST", "/api/v1/nodes", {"metadata": {"name": name}})).code == 200
    accounts = f"/api/v1/namespaces/{place.namespace}/serviceaccounts"
    bound = {"spec": {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": name}}}
    reply = await ask(me, "POST", f"{accounts}/nodemanager-b/token", bound)
    assert (reply.code, "may not bind a token" in reply.message) == (FORBIDDEN, True), reply
    assert (await ask(me, "POST", f"{accounts}/nodemanager-b/token", {"spec": {}})).code == 200
    assert (await ask(me, "POST", f"{accounts}/default/token", {"spec": {}})).code == FORBIDDEN
    assert (await ask(api.client, "DELETE", f"/api/v1/nodes/{name}")).code == 200


async def test_it_gets_past_no_name_by_having_one_generated(place: Place, me: Client) -> None:
    here = place.namespace
    for folder, body in (
        (f"{OURS}/{here}/managednodes", node("", here, metadata={"generateName": "b"})),
        (f"{LEASES}/{here}/leases", {"metadata": {"generateName": "nodemanager-b"}, "spec": {}}),
        (f"/api/v1/namespaces/{here}/secrets", {"metadata": {"generateName": "wg-wg0-b"}}),
    ):
        body["metadata"].pop("name", None)
        reply = await ask(me, "POST", folder, body)
        assert reply.code == FORBIDDEN, (folder, reply)


async def test_it_moves_no_addresses_of_its_node(place: Place, me: Client, api: Api) -> None:
    """Where nobody allots addresses to nodes, one could claim those of the pods of another."""
    assert (await ask(api.client, "POST", "/api/v1/nodes", {"metadata": {"name": "b"}})).code == 200
    for spec in ({"podCIDR": "10.0.0.0/8", "podCIDRs": ["10.0.0.0/8"]}, {"providerID": "test://b"}):
        reply = await ask(me, "PATCH", "/api/v1/nodes/b", {"spec": spec})
        assert (reply.code, "may only cordon" in reply.message) == (FORBIDDEN, True), reply
    assert (await ask(api.client, "DELETE", "/api/v1/nodes/b")).code == 200


BREAK = "@"
"""What stands for every character that somebody takes for the end of a line, or that steers a terminal."""
BREAKS = "\n\r\x0b\x1b\x7f\x85\x9b\u2028\u2029\u202e\u2066"


@pytest.mark.parametrize(
    "status",
    [
        {"wireGuard": [{"name": "wg0", "publicKey": "a2V5@PostUp = reboot"}]},
        {"wireGuard": [{"name": "wg0@PostUp = x", "publicKey": "a2V5"}]},
        {"interfaces": {"eth0": {"ipv4": ["10.0.0.1@PostUp = reboot"]}}},
        {"interfaces": {"eth0": {"ipv6": ["fe80::1@PostUp = reboot"]}}},
        {"interfaces": {"eth0@PostUp = reboot": {"ipv4": ["10.0.0.1"]}}},
        {"sshHostKeys": [{"algorithm": 4, "fingerprintType": 2, "fingerprint": "aa@* IN TXT x"}]},
        {"release": "6.1@root::0:0:::"},
        {"agentVersion": "1@root::0:0:::"},
        {"heartbeat": {"leaseName": "a@b"}},
        {"configsets": [{"name": "a@b"}]},
        {"configsets": [{"name": "a", "resourceVersion": "1@2"}]},
        {"configsets": [{"name": "a", "conflicts": ["file:/a@b"]}]},
        {"drift": {"lastResource": "file:/a@b"}},
        {"fileBackups": {"/a": "00@x"}},
    ],
)
async def test_it_tells_no_lines_of_its_own_that_others_write_to_their_files(
    place: Place, me: Client, status: dict[str, Any]
) -> None:
    """Files of WireGuard are made of what other hosts tell, and have commands in them that root runs."""
    here = place.namespace
    mine = f"{OURS}/{here}/managednodes/b"
    assert (await ask(me, "POST", f"{OURS}/{here}/managednodes", node("b", here))).code == 200
    for char in BREAKS:
        evil = json.loads(json.dumps(status).replace(BREAK, json.dumps(char)[1:-1]))
        reply = await ask(me, "PATCH", f"{mine}/status", {"status": evil})
        assert reply.code in {FORBIDDEN, 422}, (char, reply)
    good = {
        "wireGuard": [{"name": "wg0", "publicKey": "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0="}],
        "interfaces": {"br-lan.7": {"ipv4": ["10.0.0.1"], "ipv6": ["2001:db8::1", "::ffff:10.0.0.1"]}},
        "release": "6.1.0-13-amd64", "agentVersion": "1.2.3+abc",
        "sshHostKeys": [{"algorithm": 4, "fingerprintType": 2, "fingerprint": "AA00ff"}],
    }  # fmt: skip
    assert (await ask(me, "PATCH", f"{mine}/status", {"status": good})).code == 200


async def test_its_messages_steer_no_terminal(place: Place, me: Client) -> None:
    """They are for people, and may have lines; of other hosts' files, they are no part."""
    here, now = place.namespace, "2026-01-01T00:00:00Z"
    mine = f"{OURS}/{here}/managednodes/b"
    assert (await ask(me, "POST", f"{OURS}/{here}/managednodes", node("b", here))).code == 200
    said = {"type": "Ready", "status": "True", "reason": "Applied", "lastTransitionTime": now}
    for char in BREAKS[1:]:
        for status in (
            {"conditions": [{**said, "message": f"a{char}b"}]},
            {"configsets": [{"name": "a", "error": f"a{char}b"}]},
        ):
            reply = await ask(me, "PATCH", f"{mine}/status", {"status": status})
            assert reply.code == 422, (char, status, reply)
    good: dict[str, Any] = {"conditions": [{**said, "message": "größer: it said\n\tno \u65e5\u672c"}]}
    assert (await ask(me, "PATCH", f"{mine}/status", {"status": good})).code == 200


async def test_it_does_not_judge_whether_it_is_alive(place: Place, me: Client, api: Api) -> None:
    """A host that is cut off cannot say so, and one that was broken into must not say that it lives."""
    nodes = f"{OURS}/{place.namespace}/managednodes"
    assert (await ask(me, "POST", nodes, node("b", place.namespace))).code == 200
    alive = {"type": "Alive", "status": "True", "reason": "LeaseRenewed", "message": "", **SINCE}
    ready = {"type": "Ready", "status": "True", "reason": "Applied", "message": "", **SINCE}
    forged = {"status": {"conditions": [alive, ready]}}
    reply = await ask(me, "PATCH", f"{nodes}/b/status", forged)
    assert (reply.code, "may not judge whether it is alive" in reply.message) == (FORBIDDEN, True), reply
    silent = {**alive, "status": "False", "reason": "LeaseExpired"}
    marked = {"status": {"conditions": [ready, silent]}}
    assert (await ask(api.client, "PATCH", f"{nodes}/b/status", marked)).code == 200
    for conditions in ([ready, alive], [ready], [], None, [ready, {**silent, "message": "no"}]):
        reply = await ask(me, "PATCH", f"{nodes}/b/status", {"status": {"conditions": conditions}})
        assert reply.code == FORBIDDEN, (conditions, reply)
    worse = {**ready, "status": "False", "reason": "ApplyFailed"}
    assert (
        await ask(me, "PATCH", f"{nodes}/b/status", {"status": {"conditions": [worse, silent]}})
    ).code == 200
    assert (await ask(me, "PATCH", f"{nodes}/b/status", {"status": {"release": "6.1.0"}})).code == 200
    assert (
        await ask(me, "PATCH", f"{nodes}/b", {"metadata": {"labels": {"kubernetes.io/os": "linux"}}})
    ).code == 200
