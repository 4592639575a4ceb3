"""Whom the policy on hosts means: every account that was let in as one, and nobody else; on both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.rights import host_rights
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly
from nodemanager.kube import core, manifests
from support.accounts import account, acting, rule
from support.agent_process import Api
from support.either import Place
from support.host_attempts import LEASES, OURS, event, lease, meta, node
from support.joined_host import ask, guard, join

FORBIDDEN = 403
OURS_GROUP = "common.nodemanager"
RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{RBAC_GROUP}/v1"
POLICY = "ValidatingAdmissionPolicy 'nodemanager-hosts'"


@pytest.fixture(name="guarded", autouse=True)
async def _guarded(place: Place, tmp_path: Path) -> None:
    await guard(place, tmp_path)


def pod_event(name: str, namespace: str) -> dict[str, Any]:
    """Return an Event about something that is none of ours."""
    found = event(name, namespace, "a-pod")
    return {**found, "involvedObject": {**found["involvedObject"], "kind": "Pod", "apiVersion": "v1"}}


@pytest.mark.parametrize("name", ["nodemanager-exporter", "nodemanager-operator", "nodemanager-daemonset"])
async def test_an_account_of_somebody_else_is_not_taken_for_a_host(place: Place, api: Api, name: str) -> None:
    """It has the prefix of ours and its own namespace, in which it may do what others may."""
    home = f"{place.namespace}-theirs"
    rights = [
        rule("coordination.k8s.io", ["leases"], "*"),
        rule("", ["secrets", "events"], "*"),
    ]
    place.kubectl("apply", "-f", "-", stdin=account(name, home, rights))
    leases, core_here = f"{LEASES}/{home}/leases", f"/api/v1/namespaces/{home}"
    async with acting(place, api, name, home) as client:
        for method, target, body in (
            ("POST", leases, lease("leader", home, "pod-7")),
            ("PATCH", f"{leases}/leader", {"spec": {"holderIdentity": "pod-8"}}),
            ("DELETE", f"{leases}/leader", None),
            ("POST", f"{core_here}/secrets", meta("settings", home)),
            ("PATCH", f"{core_here}/secrets/settings", {"stringData": {"a": "b"}}),
            ("POST", f"{core_here}/events", pod_event("anything", home)),
        ):
            reply = await ask(client, method, target, body)
            assert reply.code == 200, (method, target, reply)


async def test_who_declares_for_hosts_is_not_held_like_one(place: Place, api: Api) -> None:
    """In our own namespace, and with our prefix: the account of somebody's pipeline."""
    here = place.namespace
    rights = [rule(OURS_GROUP, ["configsets", "managednodes"], "*"), rule("", ["secrets"], "*")]
    place.kubectl("apply", "-f", "-", stdin=account("nodemanager-deployer", here, rights))
    labelled = node("db1", here, metadata={"labels": {"role": "db"}}, spec={"domain": "good.test"})
    async with acting(place, api, "nodemanager-deployer") as client:
        for method, target, body in (
            ("POST", f"{OURS}/{here}/managednodes", labelled),
            ("POST", f"/api/v1/namespaces/{here}/secrets", meta("password", here)),
            ("PATCH", f"/api/v1/namespaces/{here}/secrets/password", {"stringData": {"a": "b"}}),
            ("DELETE", f"{OURS}/{here}/managednodes/db1", None),
        ):
            assert (await ask(client, method, target, body)).code == 200, (method, target)


@asynccontextmanager
async def let_in_by_hand(place: Place, api: Api, hostname: str) -> AsyncIterator[Client]:
    """Be a host of a name that our commands refuse, which somebody let in with manifests of their own."""
    found = host_rights.manifests(host_rights.HostAccess(hostname, place.namespace))
    place.kubectl("apply", "-f", "-", stdin=manifests.dump(found))
    async with acting(place, api, f"nodemanager-{hostname}") as client:
        yield client


@pytest.mark.parametrize("hostname", ["operator", "daemonset", "web1-drain"])
async def test_a_host_is_held_whatever_its_name(place: Place, api: Api, hostname: str) -> None:
    here = place.namespace
    async with let_in_by_hand(place, api, hostname) as client:
        for target, body in (
            (f"{OURS}/{here}/managednodes", node("web1", here)),
            (f"{OURS}/{here}/managednodes", node(hostname, here, metadata={"labels": {"role": "db"}})),
            (f"{LEASES}/{here}/leases", lease("stray", here, hostname)),
            (f"/api/v1/namespaces/{here}/events", event("web1.1", here, "web1")),
        ):
            reply = await ask(client, "POST", target, body)
            assert (reply.code, POLICY in reply.message) == (FORBIDDEN, True), (target, reply)


async def test_a_host_that_lost_a_part_of_its_rights_is_still_one(
    place: Place, api: Api, tmp_path: Path
) -> None:
    """Taking its Role away is one of the ways to let a host go; what is left must not be worth more."""
    name = f"n{place.namespace[-8:]}"
    made = await ask(api.client, "POST", "/api/v1/nodes", {"metadata": {"name": name}})
    assert made.code == 200
    host = await join(place, tmp_path, name, "--kubernetes-node")
    await api.client.delete(core.ROLES, f"nodemanager-{name}", place.namespace)
    async with host.client() as client:
        reply = await ask(client, "PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {"a": "b"}}})
    assert (reply.code, POLICY in reply.message) == (FORBIDDEN, True), reply
    await ask(api.client, "DELETE", f"/api/v1/nodes/{name}")


async def test_a_host_writes_nothing_in_another_namespace_whatever_its_rights_there(
    place: Place, api: Api, tmp_path: Path
) -> None:
    """As the rights of the Go project were: for the whole cluster."""
    host, there = await join(place, tmp_path, "web1"), f"{place.namespace}-b"
    wide = [
        rule(OURS_GROUP, ["managednodes"], "get", "create", "update", "patch"),
        rule("coordination.k8s.io", ["leases"], "get", "create", "update", "patch"),
        rule("", ["secrets", "events", "serviceaccounts/token"], "create"),
    ]
    place.kubectl("apply", "-f", "-", stdin=account("nodemanager-web1", place.namespace, wide, there))
    place.kubectl("apply", "-f", "-", stdin=account("nodemanager-web1", there, []))
    core_there = f"/api/v1/namespaces/{there}"
    async with host.client() as client:
        for target, body in (
            (f"{OURS}/{there}/managednodes", node("web1", there)),
            (f"{LEASES}/{there}/leases", lease("nodemanager-web1", there, "web1")),
            (f"{core_there}/events", event("web1.1", there, "web1")),
            (f"{core_there}/secrets", meta("wg-wg0-web1", there)),
            (f"{core_there}/serviceaccounts/nodemanager-web1/token", {"spec": {}}),
        ):
            reply = await ask(client, "POST", target, body)
            assert (reply.code, "own namespace only" in reply.message) == (FORBIDDEN, True), (
                target,
                reply,
            )


async def test_the_operator_makes_no_token_of_a_host_by_way_of_a_secret(place: Place, api: Api) -> None:
    """It may create Secrets, as nobody can give what they have not got; of one type they become tokens."""
    rights = manifests.dump(assembly.manifests(place.namespace))
    place.kubectl("apply", "-f", "-", stdin=rights)
    secrets = f"/api/v1/namespaces/{place.namespace}/secrets"
    token = meta(
        "x", place.namespace, annotations={"kubernetes.io/service-account.name": "nodemanager-probe"}
    )
    async with acting(place, api, "nodemanager-operator") as client:
        for body in (
            {**token, "type": "kubernetes.io/service-account-token"},
            {**token, **meta("wg-wg0-operator", place.namespace), "type": "example.com/any"},
            meta("password", place.namespace),
        ):
            reply = await ask(client, "POST", secrets, body)
            assert (reply.code, POLICY in reply.message) == (FORBIDDEN, True), (body, reply)
        leases = f"{LEASES}/{place.namespace}/leases"  # where it takes its turn under a name of its own
        held = lease("nodemanager-operator", place.namespace, "pod-1_abc")
        assert (await ask(client, "POST", leases, held)).code == 200


async def test_the_operator_stays_one_and_lets_nobody_in(place: Place, api: Api) -> None:
    """It may write Roles of references only: with fewer rights of its own, it would not be meant any more."""
    rights = manifests.dump(assembly.manifests(place.namespace))
    place.kubectl("apply", "-f", "-", stdin=rights)
    roles, bindings = (f"{RBAC}/namespaces/{place.namespace}/{kind}" for kind in ("roles", "rolebindings"))
    name = "nodemanager-web1-references"
    role = {**meta(name, place.namespace), "rules": []}
    host = {"kind": "ServiceAccount", "name": "nodemanager-web1", "namespace": place.namespace}
    binding = {
        **meta(name, place.namespace),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": name},
        "subjects": [host],
    }
    everybody = {"apiGroup": RBAC_GROUP, "kind": "Group", "name": "system:authenticated"}
    async with acting(place, api, "nodemanager-operator") as client:
        assert (await ask(client, "POST", roles, role)).code == 200
        assert (await ask(client, "POST", bindings, binding)).code == 200
        for path, body in (
            (roles, {**role, **meta("any", place.namespace)}),
            (bindings, {**binding, **meta("any", place.namespace)}),
            (bindings, {**binding, **meta("nodemanager-web2-references", place.namespace)}),
            (
                bindings,
                {**binding, **meta("nodemanager-x-references", place.namespace), "subjects": [everybody]},
            ),
        ):
            reply = await ask(client, "POST", path, body)
            assert (reply.code, POLICY in reply.message) == (FORBIDDEN, True), (body, reply)
        reply = await ask(client, "PATCH", f"{roles}/nodemanager-operator", {"rules": []})
        assert (reply.code, POLICY in reply.message) == (FORBIDDEN, True), reply
