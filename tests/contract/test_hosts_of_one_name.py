"""Hosts of one name in two namespaces are two hosts: neither takes or keeps what is the other's."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.rights import host_rights
from nodemanager.api.rights.host_rights import HostAccess
from nodemanager.kube import manifests
from support.agent_process import Api
from support.either import Place
from support.joined_host import Joined, ask, join, succeeds

REFUSED = {401, 403}
"""kube-apiserver remembers for a few seconds whose a token was."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LABEL = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?\Z")
LONG = LABEL.map(lambda one: (one * 227)[:227].strip("-"))
HOST = st.one_of(LABEL, st.builds("{0}.{1}".format, LABEL, LABEL), LONG)


@pytest.fixture(name="other")
def _other(place: Place) -> Place:
    """Another namespace of the same API."""
    return replace(place, namespace=f"{place.namespace}-x")


async def may(host: Joined) -> dict[str, int]:
    """Return what the API answers to something that all hosts may, and to what only nodes may."""
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    async with host.client() as client:
        asked = await ask(client, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        pods = await ask(client, "GET", "/api/v1/pods")
    return {"ask": asked.code, "drain": pods.code}


async def test_neither_overwrites_what_is_the_others(place: Place, other: Place, tmp_path: Path) -> None:
    first = await join(place, tmp_path / "one", "web1", "--kubernetes-node")
    second = await join(other, tmp_path / "two", "web1", "--kubernetes-node")
    assert [await may(first), await may(second)] == [{"ask": 200, "drain": 200}] * 2


async def test_letting_one_go_leaves_the_other(place: Place, other: Place, tmp_path: Path, api: Api) -> None:
    first = await join(place, tmp_path / "one", "web1", "--kubernetes-node")
    second = await join(other, tmp_path / "two", "web1", "--kubernetes-node")
    listed = succeeds("rbac", "--hostname", "web1", "-n", place.namespace, "--revoke").stdout
    deleted = place.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=listed)
    assert deleted.startswith('serviceaccount "nodemanager-web1"')  # so that nothing can be done in between
    assert place.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=listed) == ""
    assert await may(second) == {"ask": 200, "drain": 200}
    assert (await may(first))["drain"] in REFUSED
    for folder in (f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"):
        for namespace, code in ((other.namespace, 200), (place.namespace, 404)):
            found = await ask(api.client, "GET", f"{folder}/nodemanager:{namespace}:web1:drain")
            assert found.code == code, (folder, namespace)
    assert (await ask(api.client, "GET", f"/api/v1/namespaces/{place.namespace}")).code == 200
    assert (await ask(api.client, "GET", f"{RBAC}/clusterroles/nodemanager-node")).code == 200


def of_older_version(host: str, *namespaces: str) -> list[dict[str, Any]]:
    """Return what was printed when the name of a host was the whole name."""
    name, drain = f"nodemanager-{host}", f"nodemanager-{host}-drain"
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": one} for one in namespaces]

    def bound(binding: str, role: str) -> dict[str, Any]:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": binding}, "roleRef": reference, "subjects": subjects,
        }  # fmt: skip

    role, _ = host_rights.drain_manifests(HostAccess(host, "any"))
    return [
        bound(name, "nodemanager-node"),
        {**role, "metadata": {"name": drain}},
        bound(drain, drain),
    ]


async def test_names_of_older_versions_go_and_nobody_loses_or_keeps_more(
    place: Place, other: Place, tmp_path: Path, api: Api
) -> None:
    host = f"h{place.namespace[-8:]}"
    name = f"nodemanager-{host}"
    first = await join(place, tmp_path / "one", host)
    await join(other, tmp_path / "two", host)
    gone = f"{place.namespace}-gone"  # its ServiceAccount is there no more
    before = of_older_version(host, place.namespace, gone)
    theirs = of_older_version(f"{host}x", place.namespace)[0]
    theirs["subjects"].append({"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"})
    orphan = f"{name}-orphan"
    lost = of_older_version(orphan.removeprefix("nodemanager-"), gone)[0]
    place.kubectl("apply", "-f", "-", stdin=manifests.dump([*before, theirs, lost]))
    assert (await may(first))["drain"] == 200
    admin = ("--kubeconfig", str(place.kubeconfig))
    plain = await asyncio.to_thread(succeeds, "crds", "--install", *admin)
    assert "clusterrolebinding" not in plain.stdout
    assert "ClusterRoleBindings have names of an older version" in plain.stderr
    assert f"{name}-drain" in plain.stderr
    assert (await ask(api.client, "GET", f"{RBAC}/clusterrolebindings/{name}")).code == 200
    tried = await asyncio.to_thread(succeeds, "crds", "--install", "--rename-bindings", "--dry-run", *admin)
    said = "clusterrolebindings.rbac.authorization.k8s.io renamed"
    assert f"{name}-drain.{said} (server dry run)\n" in tried.stdout
    assert (await ask(api.client, "GET", f"{RBAC}/clusterrolebindings/{name}-drain")).code == 200
    done = await asyncio.to_thread(succeeds, "crds", "--install", "--rename-bindings", *admin)
    assert f"{name}.{said}\n" in done.stdout
    for folder, old in itertools.product(("clusterroles", "clusterrolebindings"), (name, f"{name}-drain")):
        assert (await ask(api.client, "GET", f"{RBAC}/{folder}/{old}")).code == 404
    assert await may(first) == {"ask": 200, "drain": 200}
    for namespace, code in ((place.namespace, 200), (other.namespace, 404), (gone, 404)):
        for folder in ("clusterroles", "clusterrolebindings"):
            found = await ask(api.client, "GET", f"{RBAC}/{folder}/nodemanager:{namespace}:{host}:drain")
            assert found.code == code, (folder, namespace)
    kept = await ask(api.client, "GET", f"{RBAC}/clusterrolebindings/{name}x")  # somebody made it their own
    assert kept.code == 200
    assert f"{orphan}.{said.removesuffix('renamed')}deleted: nobody holds it any more\n" in done.stdout
    again = await asyncio.to_thread(succeeds, "crds", "--install", *admin)
    assert "an older version" not in again.stderr
    await ask(api.client, "DELETE", f"{RBAC}/clusterrolebindings/{name}x")


def names(access: HostAccess) -> Iterator[str]:
    for one in host_rights.manifests(access):
        if "namespace" not in one["metadata"] and one["kind"] == "ClusterRoleBinding":
            yield one["metadata"]["name"]


@given(st.lists(st.tuples(LABEL, HOST), min_size=2, max_size=6, unique=True))
def test_no_two_hosts_share_a_name_and_none_is_too_long(hosts: list[tuple[str, str]]) -> None:
    made = [
        name for namespace, host in hosts for name in names(HostAccess(host, namespace, kubernetes_node=True))
    ]
    assert len(set(made)) == len(made) == 2 * len(hosts)
    assert max(map(len, made)) <= 253


def test_what_is_shared_is_never_listed_for_deletion() -> None:
    for host in ("web1", "node", "hosts"):
        listed = host_rights.own_manifests(HostAccess(host, "nodemanager"))
        assert listed[0]["kind"] == "ServiceAccount"
        found = {(one["kind"], one["metadata"]["name"]) for one in listed}
        assert not found & {("Namespace", "nodemanager"), ("ClusterRole", "nodemanager-node")}
        assert len(found) == 8  # of ten that are printed, two are shared
