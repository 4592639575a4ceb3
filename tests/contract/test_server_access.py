"""Who may do what, verb by verb: every request of a host's token against an oracle that knows no RBAC."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from support.rbac_objects import rule
from support.server_process import NAMESPACE, RBAC, Server, admin_session, issue, running, session

OTHER_NAMESPACE = "default"
OURS = "common.nodemanager"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
ROLES = f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/roles"
BINDINGS = f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/rolebindings"

HOST_RULES = (
    rule("get list watch update patch", "managednodes", OURS, resourceNames=["host-a"]),
    rule("update patch", "managednodes/status", OURS, resourceNames=["host-a"]),
    rule("get list watch", "configsets", OURS),
    rule("create", "leases", "coordination.k8s.io"),
    rule("get update patch", "leases", "coordination.k8s.io", resourceNames=["host-a"]),
    rule("create patch", "events"),
    rule("get", "secrets", resourceNames=["host-a"]),
    rule("create", "serviceaccounts/token", resourceNames=["host-a"]),
)
ALLOWED = {
    *((verb, "managednodes", "host-a") for verb in ("get", "list", "watch", "update", "patch")),
    *((verb, "managednodes/status", "host-a") for verb in ("update", "patch")),
    *((verb, "configsets", name) for verb in ("get", "list", "watch") for name in ("host-a", "host-b")),
    *((verb, "configsets", "") for verb in ("list", "watch")),
    ("create", "leases", ""),
    *((verb, "leases", "host-a") for verb in ("get", "update", "patch")),
    ("create", "events", ""),
    *(("patch", "events", name) for name in ("host-a", "host-b")),
    ("get", "secrets", "host-a"),
    ("create", "serviceaccounts/token", "host-a"),
}
"""What a host may do in its own namespace, written down once more: verb, resource, name."""

RESOURCES = {
    "managednodes": f"apis/{OURS}/v1", "managednodes/status": f"apis/{OURS}/v1",
    "configsets": f"apis/{OURS}/v1", "configsets/status": f"apis/{OURS}/v1",
    "leases": "apis/coordination.k8s.io/v1", "events": "api/v1", "secrets": "api/v1", "configmaps": "api/v1",
    "serviceaccounts": "api/v1", "serviceaccounts/token": "api/v1", "pods": "api/v1",
    "pods/eviction": "api/v1", "roles": f"apis/{RBAC}/v1", "rolebindings": f"apis/{RBAC}/v1",
}  # fmt: skip
CLUSTER = {
    "namespaces": "api/v1", "nodes": "api/v1", "clusterroles": f"apis/{RBAC}/v1",
    "clusterrolebindings": f"apis/{RBAC}/v1",
    "customresourcedefinitions": "apis/apiextensions.k8s.io/v1",
}  # fmt: skip
METHODS = {
    "get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH",
    "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip
OF_COLLECTIONS = ("list", "watch", "deletecollection")


class Question(NamedTuple):
    """One request, and whether the host may make it."""

    verb: str
    path: str
    query: dict[str, str]
    allowed: bool

    def __str__(self) -> str:
        return f"{self.verb} {self.path} {self.query}"


def questions() -> Iterator[Question]:
    """Every verb on every resource: own and other name, all names, another namespace, everywhere."""
    places = (NAMESPACE, OTHER_NAMESPACE, "")
    for verb, resource, name, place in itertools.product(
        METHODS, RESOURCES, ("host-a", "host-b", ""), places
    ):
        plural, _, sub = resource.partition("/")
        if (sub and (not name or verb in OF_COLLECTIONS)) or not _addressable(verb, sub, name):
            continue
        allowed = place == NAMESPACE and (verb, resource, name) in ALLOWED
        space = f"/namespaces/{place}" if place else ""
        yield _question(verb, f"/{RESOURCES[resource]}{space}/{plural}", name, sub, allowed=allowed)
    for verb, plural, name in itertools.product(METHODS, CLUSTER, ("host-a", "")):
        if _addressable(verb, "", name):
            yield _question(verb, f"/{CLUSTER[plural]}/{plural}", name, "", allowed=False)


def _addressable(verb: str, sub: str, name: str) -> bool:
    """Whether HTTP can say that: an update of no name is an update of the collection, and so on."""
    if verb == "create":
        return bool(name) == bool(sub)
    return bool(name) or verb in OF_COLLECTIONS


def _question(verb: str, collection: str, name: str, sub: str, *, allowed: bool) -> Question:
    query = {"dryRun": "All"} if verb not in ("get", "list", "watch") else {}
    if verb in OF_COLLECTIONS:
        query |= {"fieldSelector": f"metadata.name={name}"} if name else {}
        query |= {"watch": "1"} if verb == "watch" else {}
        return Question(verb, collection, query, allowed)
    path = "/".join(part for part in (collection, name, sub) if part)
    return Question(verb, path, query, allowed)


async def answer(http: aiohttp.ClientSession, asked: Question) -> int:
    """Ask, and return the status; the body need not make sense, for permission comes first."""
    kind = "application/merge-patch+json" if asked.verb == "patch" else "application/json"
    body = "{}" if METHODS[asked.verb] != "GET" else None
    async with http.request(
        METHODS[asked.verb], asked.path, params=asked.query, data=body, headers={"Content-Type": kind}
    ) as response:
        return response.status


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(Path(tmp_path_factory.mktemp("access")) / "data") as one:
        yield one


@pytest.fixture
async def admin(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    async with admin_session(server) as http:
        yield http


async def revision(http: aiohttp.ClientSession) -> str:
    async with http.get("/api/v1/namespaces") as response:
        return str((await response.json())["metadata"]["resourceVersion"])


async def test_a_host_may_do_what_its_role_says_and_nothing_else(
    server: Server, admin: aiohttp.ClientSession
) -> None:
    token = await issue(server, admin, "host-a", *HOST_RULES)
    async with admin.post(f"{CORE}/secrets", json={"metadata": {"name": "host-b"}}) as response:
        assert response.status == 201
    before = await revision(admin)
    wrong, allowed = [], 0
    async with session(server, token=token) as host:
        for asked in questions():
            code = await answer(host, asked)
            allowed += asked.allowed
            if (code not in (401, 403)) is not asked.allowed:
                wrong.append(f"{asked}: {code}")
    assert not wrong
    assert allowed == len(ALLOWED)
    assert await revision(admin) == before


@pytest.mark.parametrize(("token", "code"), [("", 403), ("nonsense", 401), ("a.b.c", 401)])
async def test_who_is_nobody_may_do_nothing(server: Server, token: str, code: int) -> None:
    async with session(server, token=token) as http:
        answers = {str(asked): await answer(http, asked) for asked in questions()}
        for path in ("/", "/api", "/apis", "/metrics", "/openapi/v2", "/openid/v1/jwks", "/nonsense"):
            async with http.get(path) as response:
                answers[path] = response.status
    assert {asked: found for asked, found in answers.items() if found != code} == {}


async def test_nobody_grants_more_than_they_have(server: Server, admin: aiohttp.ClientSession) -> None:
    writing = rule("create update patch get", "roles rolebindings", RBAC)
    token = await issue(server, admin, "delegate", writing, rule("get", "configmaps"))
    more = {"rules": [rule("*", "*", "*")]}
    subject = [{"kind": "ServiceAccount", "name": "delegate", "namespace": NAMESPACE}]
    root = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    to_admin = {"roleRef": root, "subjects": subject}
    apply = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "by-apply"}, **more}
    merge = "application/merge-patch+json"
    refused: list[tuple[str, str, Any, str]] = [
        ("POST", ROLES, {"metadata": {"name": "more"}, **more}, ""),
        ("POST", f"{ROLES}?dryRun=All", {"metadata": {"name": "more"}, **more}, ""),
        ("PUT", f"{ROLES}/delegate", {"metadata": {"name": "delegate"}, **more}, ""),
        ("PATCH", f"{ROLES}/delegate", more, merge),
        ("PATCH", f"{ROLES}/by-apply?fieldManager=x&force=true", apply, "application/apply-patch+yaml"),
        ("POST", ROLES, {"metadata": {"name": "s"}, "rules": [rule("get", "secrets")]}, ""),
        ("POST", ROLES, {"metadata": {"name": "s"}, "rules": [rule("escalate bind", "roles", RBAC)]}, ""),
        ("POST", ROLES, {"metadata": {"name": "s"}, "rules": [rule("impersonate", "users")]}, ""),
        ("POST", BINDINGS, {"metadata": {"name": "root"}, **to_admin}, ""),
        ("PATCH", f"{BINDINGS}/delegate", {"subjects": [{"kind": "Group", "name": "x", "apiGroup": RBAC}],
                                           "roleRef": root}, merge),
        ("POST", f"/apis/{RBAC}/v1/clusterrolebindings", {"metadata": {"name": "root"}, **to_admin}, ""),
        ("POST", f"/apis/{RBAC}/v1/clusterroles", {"metadata": {"name": "root"}, **more}, ""),
    ]  # fmt: skip
    async with session(server, token=token) as http:
        before = await revision(admin)
        for method, path, body, kind in refused:
            headers = {"Content-Type": kind or "application/json"}
            async with http.request(method, path, data=json.dumps(body), headers=headers) as response:
                assert response.status in (403, 422), f"{method} {path}: {await response.text()}"
        assert await revision(admin) == before
        same = {"metadata": {"name": "same"}, "rules": [rule("get", "configmaps", resourceNames=["x"])]}
        async with http.post(ROLES, json=same) as response:
            assert response.status == 201, await response.text()
        reference = {"apiGroup": RBAC, "kind": "Role", "name": "same"}
        body = {"metadata": {"name": "same"}, "roleRef": reference, "subjects": subject}
        async with http.post(BINDINGS, json=body) as response:
            assert response.status == 201, await response.text()


async def test_escalate_and_bind_are_rights_of_their_own(
    server: Server, admin: aiohttp.ClientSession
) -> None:
    token = await issue(
        server, admin, "trusted",
        rule("create escalate", "roles", RBAC), rule("create", "rolebindings", RBAC),
        rule("bind", "clusterroles", RBAC, resourceNames=["view"]),
    )  # fmt: skip
    async with session(server, token=token) as http:
        more = {"metadata": {"name": "escalated"}, "rules": [rule("get", "secrets")]}
        async with http.post(ROLES, json=more) as response:
            assert response.status == 201
        for name, code in (("view", 201), ("edit", 403)):
            body = {
                "metadata": {"name": f"bound-{name}"}, "subjects": [],
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            }  # fmt: skip
            async with http.post(BINDINGS, json=body) as response:
                assert response.status == code, await response.text()


IMPERSONATIONS: dict[str, tuple[dict[str, str], int]] = {
    "user": ({"Impersonate-User": "admin"}, 403),
    "masters": ({"Impersonate-User": "x", "Impersonate-Group": "system:masters"}, 403),
    "account": ({"Impersonate-User": "system:serviceaccount:kube-system:x"}, 403),
    "itself": ({"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:plain"}, 403),
    "anonymous": ({"Impersonate-User": "system:anonymous"}, 403),
    "node": ({"Impersonate-User": "system:node:a"}, 403),
    "case": ({"iMPERSONATE-uSER": "admin"}, 403),
    "uid": ({"Impersonate-User": "x", "Impersonate-Uid": "1"}, 403),
    "extra": ({"Impersonate-User": "x", "Impersonate-Extra-Scopes": "all"}, 403),
    "group alone": ({"Impersonate-Group": "system:masters"}, 400),
    "uid alone": ({"Impersonate-Uid": "1"}, 400),
    "extra alone": ({"Impersonate-Extra-Scopes": "all"}, 400),
}


@pytest.mark.parametrize("who", IMPERSONATIONS)
async def test_impersonation_is_refused(server: Server, admin: aiohttp.ClientSession, who: str) -> None:
    headers, code = IMPERSONATIONS[who]
    name = "plain-" + who.replace(" ", "-")
    token = await issue(server, admin, name, rule("*", "configmaps"))
    async with session(server, token=token) as http:
        async with http.get(f"{CORE}/configmaps") as response:
            assert response.status == 200
        for path in (f"{CORE}/configmaps", "/version", "/metrics"):
            async with http.get(path, headers=headers) as response:
                assert response.status == code, await response.text()


async def test_tokens_of_others_are_not_for_asking(server: Server, admin: aiohttp.ClientSession) -> None:
    own = rule("create", "serviceaccounts/token", resourceNames=["asker"])
    token = await issue(server, admin, "asker", own, rule("get", "serviceaccounts"))
    await issue(server, admin, "victim")
    async with session(server, token=token) as http:
        for place, name, code in (
            (NAMESPACE, "asker", 201), (NAMESPACE, "victim", 403), (NAMESPACE, "missing", 403),
            (OTHER_NAMESPACE, "asker", 403), (OTHER_NAMESPACE, "default", 403),
        ):  # fmt: skip
            path = f"/api/v1/namespaces/{place}/serviceaccounts/{name}/token"
            async with http.post(path, json={"spec": {}}) as response:
                assert response.status == code, await response.text()


ODD_QUESTIONS = {
    "a list as metadata": {"metadata": ["x"]},
    "a text as metadata": {"metadata": "x"},
    "a name that is none": {"metadata": {"name": []}},
    "an uid that is none": {"metadata": {"uid": {}}},
    "a list as spec": {"spec": []},
    "a text as audiences": {"spec": {"audiences": "x"}},
}


@pytest.mark.parametrize("odd", ODD_QUESTIONS)
async def test_questions_of_wrong_types_are_refused(
    server: Server, admin: aiohttp.ClientSession, odd: str
) -> None:
    body, user = ODD_QUESTIONS[odd], "asked-with-" + odd.replace(" ", "-")
    await issue(server, admin, user)
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    for path in (f"{CORE}/serviceaccounts/{user}/token", reviews):
        async with admin.post(path, json=body) as response:
            assert response.status == 400, await response.text()
