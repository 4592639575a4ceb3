"""Our RBAC, reviews, tokens and refusals against a real kube-apiserver: same question, same answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.kube.errors import StatusError
from nodemanager.kube.rbac import default_roles
from nodemanager.kube.rbac.escalation import atoms
from nodemanager.kube.rbac.identity import (
    AUTHENTICATED,
    Attributes,
    User,
    service_account_groups,
    split_service_account,
)
from nodemanager.kube.rbac.rules import PolicyRule, parse_rules
from nodemanager.server.access import access_reviews, role_writes, token_api, token_keys
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.access.impersonation import impersonate, wanted_user
from nodemanager.server.access.tokens import Tokens
from support.apiserver import ApiServer
from support.raw_api import Answer, RawApi
from support.rbac_world import BASE, RBAC, Lister, World, bound, lister_of, path_of

QUESTIONS = 300
ATTEMPTS = 120
RARE = [{"verbs": ["get"], "apiGroups": ["never.example"], "resources": ["things"]}]
"""Rules that nobody here holds."""
REVIEWS = "/apis/authorization.k8s.io/v1"
_MISSING = re.compile(r'[a-z]+\.rbac\.authorization\.k8s\.io "[^"]+" not found')


@pytest.fixture(scope="module")
def admin(kube: ApiServer) -> Iterator[RawApi]:
    """An administrator's connection."""
    api = RawApi(kube)
    yield api
    api.close()


def build(admin: RawApi, world: World) -> None:
    """Create a world on the server, and wait until its caches know all of it."""
    for namespace in world.namespaces:
        made(admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    for plural, obj in world.objects():
        made(admin.ask("POST", path_of(plural, obj), obj))
    settle(admin, f"{world.prefix}-sentinel", world.namespaces[0])


def settle(admin: RawApi, name: str, namespace: str) -> None:
    """Create a grant of each kind and ask for it until it counts: the caches keep the order of writes."""
    rules = [{"verbs": ["get"], "apiGroups": ["sentinel.example"], "resources": ["things"]}]
    made(admin.ask("POST", f"{BASE}/clusterroles", {"metadata": {"name": name}, "rules": rules}))
    made(admin.ask("POST", f"{BASE}/clusterrolebindings", bound(name, name, f"{name}-cluster")))
    local = f"{BASE}/namespaces/{namespace}"
    made(admin.ask("POST", f"{local}/roles", {"metadata": {"name": name}, "rules": rules}))
    binding = bound(name, name, f"{name}-local", namespace)
    binding["roleRef"]["kind"] = "Role"
    made(admin.ask("POST", f"{local}/rolebindings", binding))
    deadline = time.monotonic() + 50
    for user in (f"{name}-cluster", f"{name}-local"):
        asked = {"verb": "get", "group": "sentinel.example", "resource": "things", "namespace": namespace}
        review = {"spec": {"user": user, "resourceAttributes": asked}}
        while not admin.ask("POST", f"{REVIEWS}/subjectaccessreviews", review).body["status"]["allowed"]:
            assert time.monotonic() < deadline, "the server's RBAC caches did not catch up"


def made(answer: Answer) -> Any:
    assert answer.code == 201, answer
    return answer.body


def refused(call: Any, *args: Any, **kwargs: Any) -> tuple[int, str, Any]:
    """Return what our side answers: 201, or code, message and details of the refusal."""
    try:
        call(*args, **kwargs)
    except StatusError as err:
        return err.code, err.message, msgspec.to_builtins(err.status.details)
    return 201, "", None


def answered(answer: Answer) -> tuple[int, str, Any]:
    """Return the same of the server's side."""
    if answer.code in {200, 201}:
        return 201, "", None
    return answer.code, answer.body["message"], answer.body.get("details")


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_random_access_reviews_are_answered_the_same(admin: RawApi, seed: int) -> None:
    world = World(f"sar{seed}", seed)
    build(admin, world)
    authorizer = Authorizer(lister_of(admin))
    allowed = 0
    for _ in range(QUESTIONS):
        review = {"spec": world.question()}
        theirs = made(admin.ask("POST", f"{REVIEWS}/subjectaccessreviews", review))["status"]
        ours = access_reviews.subject_access_review(authorizer, review)["status"]
        assert ours["allowed"] == theirs["allowed"], (review, ours, theirs)
        allowed += theirs["allowed"]
        _check_reason(authorizer, review, ours.get("reason", ""), theirs.get("reason", ""))
    assert 30 < allowed < QUESTIONS - 30, "the questions are too one-sided to prove anything"


def _check_reason(authorizer: Authorizer, review: dict[str, Any], ours: str, theirs: str) -> None:
    """Compare reasons; where several bindings allow it, the server names any of them."""
    if not theirs.startswith("RBAC: allowed by "):
        assert sorted(_MISSING.findall(ours)) == sorted(_MISSING.findall(theirs))
        return
    spec = msgspec.convert(review["spec"], access_reviews.AccessReviewSpec)
    asked = access_reviews._attributes(spec)
    held = authorizer.policy(asked.namespace).held(User(spec.user, tuple(spec.groups)))
    sources = {grant.source for grant in held.grants if any(rule.allows(asked) for rule in grant.rules)}
    assert ours.removeprefix("RBAC: allowed by ") in sources
    assert theirs.removeprefix("RBAC: allowed by ") in sources


@pytest.fixture(scope="module")
def writers(admin: RawApi) -> tuple[World, Authorizer]:
    """A world whose users may all write roles and bindings; some may also escalate or bind."""
    world = World("esc", 99)
    plurals = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]
    write = [{"verbs": ["create", "update"], "apiGroups": [RBAC], "resources": plurals}]
    escalate = [{"verbs": ["escalate"], "apiGroups": [RBAC], "resources": ["roles"]}]
    bind = [
        {
            "verbs": ["bind"],
            "apiGroups": [RBAC],
            "resources": ["clusterroles"],
            "resourceNames": ["esc-c0", "esc-c1"],
        }
    ]
    named = [
        {
            "verbs": ["escalate"],
            "apiGroups": [RBAC],
            "resources": ["clusterroles"],
            "resourceNames": ["esc-new", "esc-known"],
        }
    ]
    for name, rules in {"write": write, "escalate": escalate, "bind": bind, "named": named}.items():
        made(admin.ask("POST", f"{BASE}/clusterroles", {"metadata": {"name": f"esc-{name}"}, "rules": rules}))
    for number, user in enumerate(world.users):
        made(
            admin.ask("POST", f"{BASE}/clusterrolebindings", bound(f"esc-write-{number}", "esc-write", user))
        )
    for name, user in [("escalate", "esc-u0"), ("bind", "esc-u1"), ("named", "esc-u2")]:
        made(admin.ask("POST", f"{BASE}/clusterrolebindings", bound(f"esc-x-{name}", f"esc-{name}", user)))
    build(admin, world)
    return world, Authorizer(lister_of(admin))


def test_escalation_and_binding_attempts_end_the_same(
    admin: RawApi, writers: tuple[World, Authorizer]
) -> None:
    world, authorizer = writers
    outcomes = []
    for number in range(ATTEMPTS):
        name = world.random.choice(world.users)
        user = User(name, (world.groups[0], AUTHENTICATED))
        headers = {"Impersonate-User": name, "Impersonate-Group": world.groups[0]}
        namespace = world.random.choice(["", *world.namespaces])
        if number % 2:
            plural, obj = "roles" if namespace else "clusterroles", world.role("new", namespace)
            ours = refused(role_writes.check_role, authorizer, user, obj, namespace=namespace)
        else:
            plural, obj = (
                "rolebindings" if namespace else "clusterrolebindings",
                world.binding("new", namespace),
            )
            ours = refused(role_writes.check_binding, authorizer, user, obj, namespace=namespace)
        theirs = admin.ask("POST", path_of(plural, obj) + "?dryRun=All", obj, headers)
        assert _unordered(ours) == _unordered(answered(theirs)), (ours, answered(theirs))
        outcomes.append(theirs.code)
    assert {201, 403, 404} <= set(outcomes)


def _unordered(answer: tuple[int, str, Any]) -> tuple[int, list[str], Any]:
    """Return an answer with its broken bindings sorted: the server's cache has no order."""
    code, message, details = answer
    found = sorted(_MISSING.findall(message.partition("; resolution errors")[2]))
    return code, [message.partition("; resolution errors")[0], *found], details


@pytest.mark.parametrize("url_name", ["esc-c2", "esc-known"])
def test_an_update_may_use_escalate_for_its_name(
    admin: RawApi, writers: tuple[World, Authorizer], url_name: str
) -> None:
    _, authorizer = writers
    role = {"metadata": {"name": url_name}, "rules": RARE}
    if url_name == "esc-known":
        admin.ask("POST", f"{BASE}/clusterroles", {"metadata": {"name": url_name}, "rules": []})
    user = User("esc-u2", (AUTHENTICATED,))
    ours = refused(role_writes.check_role, authorizer, user, role, url_name=url_name, old={"metadata": {}})
    theirs = admin.as_user("esc-u2", "PUT", f"{BASE}/clusterroles/{url_name}?dryRun=All", role)
    assert ours[:2] == answered(theirs)[:2]
    assert ours[0] == (201 if url_name == "esc-known" else 403)


@pytest.mark.parametrize("change", ["finalizers", "labels"])
def test_an_update_for_the_garbage_collector_is_nobodys_grant(
    admin: RawApi, writers: tuple[World, Authorizer], change: str
) -> None:
    _, authorizer = writers
    old = made(
        admin.ask("POST", f"{BASE}/clusterroles", {"metadata": {"name": f"esc-gc-{change}"}, "rules": RARE})
    )
    value: Any = ["example.org/wait"] if change == "finalizers" else {"a": "b"}
    new = {**old, "metadata": {**old["metadata"], change: value}}
    name = str(new["metadata"]["name"])
    user = User("esc-u3", (AUTHENTICATED,))
    ours = refused(role_writes.check_role, authorizer, user, new, url_name=name, old=old)
    theirs = admin.as_user("esc-u3", "PUT", f"{BASE}/clusterroles/{name}?dryRun=All", new)
    assert ours == answered(theirs)
    assert ours[0] == (201 if change == "finalizers" else 403)


def test_an_aggregation_rule_needs_full_authority(admin: RawApi, writers: tuple[World, Authorizer]) -> None:
    _, authorizer = writers
    selector = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    role = {"metadata": {"name": "esc-aggregate"}, "rules": [], "aggregationRule": selector}
    ours = refused(role_writes.check_role, authorizer, User("esc-u3", (AUTHENTICATED,)), role)
    theirs = admin.as_user("esc-u3", "POST", f"{BASE}/clusterroles?dryRun=All", role)
    assert ours == answered(theirs)
    assert ours[0] == 403


REFUSED = [
    (
        "GET",
        "/api/v1/namespaces/default/pods/x",
        Attributes("get", resource="pods", namespace="default", name="x"),
    ),
    ("GET", "/api/v1/namespaces/default/pods", Attributes("list", resource="pods", namespace="default")),
    ("GET", "/api/v1/pods?watch=1", Attributes("watch", resource="pods")),
    ("GET", "/api/v1/nodes/n", Attributes("get", resource="nodes", name="n")),
    ("GET", "/api/v1/nodes/n/status", Attributes("get", resource="nodes", subresource="status", name="n")),
    ("DELETE", f"{BASE}/clusterroles/x", Attributes("delete", RBAC, resource="clusterroles", name="x")),
    ("DELETE", f"{BASE}/clusterroles", Attributes("deletecollection", RBAC, resource="clusterroles")),
    (
        "POST",
        "/api/v1/namespaces/default/pods/p/eviction",
        Attributes("create", resource="pods", subresource="eviction", namespace="default", name="p"),
    ),
    ("GET", "/metrics", Attributes("get", path="/metrics")),
    ("POST", "/a%3Cb%3E&c", Attributes("post", path="/a<b>&c")),
]


@pytest.mark.parametrize(("method", "path", "asked"), REFUSED, ids=[case[1] for case in REFUSED])
@pytest.mark.parametrize("name", ["nobody", 'quo"te\\', "ünï<b>"])
def test_refusals_read_the_same(admin: RawApi, name: str, method: str, path: str, asked: Attributes) -> None:
    header = name.encode().decode("latin-1")  # headers are bytes; the server reads them as UTF-8
    theirs = admin.as_user(header, method, path, {} if method == "POST" else None)
    ours = refused(Authorizer(Lister()).require, User(name, (AUTHENTICATED,)), asked)
    assert ours == answered(theirs)


IMPERSONATIONS: list[dict[str, str]] = [
    {"Impersonate-User": "bob"},
    {"Impersonate-User": "bob", "Impersonate-Group": "g"},
    {"Impersonate-User": "system:serviceaccount:default:x"},
    {"Impersonate-User": "system:serviceaccount:UP:x"},
    {"Impersonate-User": "system:serviceaccount:default:x", "Impersonate-Uid": "1"},
    {"Impersonate-User": "system:node:n1"},
    {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"},
    {"Impersonate-Group": "g"},
    {"Impersonate-Uid": "5"},
    {"Impersonate-Extra-Foo%2fbar": "v", "Impersonate-Uid": "1"},
]


@pytest.mark.parametrize("rights", ["none", "user-info", "legacy"])
@pytest.mark.parametrize("number", range(len(IMPERSONATIONS)))
def test_impersonation_is_refused_the_same(kube: ApiServer, admin: RawApi, rights: str, number: int) -> None:
    headers, name = IMPERSONATIONS[number], f"imp-{rights}-{number}"
    if rights != "none":
        _grant_impersonation(admin, name, rights)
    lister = lister_of(admin)
    asked = Attributes("list", version="v1", resource="configmaps", namespace="default")

    def ours() -> None:
        wanted = wanted_user(headers.items())
        assert wanted is not None
        actual = impersonate(Authorizer(lister), User(name, (AUTHENTICATED,)), wanted, asked)
        Authorizer(lister).require(actual, asked)

    api = RawApi(kube, name, None)
    assert refused(ours) == answered(api.ask("GET", "/api/v1/namespaces/default/configmaps", headers=headers))
    api.close()


def _grant_impersonation(admin: RawApi, name: str, rights: str) -> None:
    """Let one user be bob: the old way, or only to list ConfigMaps."""
    rules = [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}]
    if rights == "user-info":
        rules = [
            {"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["configmaps"]},
            {
                "verbs": ["impersonate:user-info"],
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["users"],
            },
        ]
    made(admin.ask("POST", f"{BASE}/clusterroles", {"metadata": {"name": name}, "rules": rules}))
    made(admin.ask("POST", f"{BASE}/clusterrolebindings", bound(name, name, name)))
    settle(admin, f"{name}-settled", "default")


def test_our_default_roles_say_what_the_real_ones_say_about_our_kinds(admin: RawApi) -> None:
    served = {
        "configmaps", "secrets", "serviceaccounts", "serviceaccounts/token", "namespaces",
        "namespaces/status", "pods", "pods/status", "pods/eviction", "nodes", "nodes/status", "events",
        "leases", "roles",
        "rolebindings", "clusterroles", "clusterrolebindings", "poddisruptionbudgets",
        "poddisruptionbudgets/status", "localsubjectaccessreviews", "subjectaccessreviews",
        "selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews", "tokenreviews", "*",
    }  # fmt: skip

    def about_ours(role: Mapping[str, Any]) -> set[PolicyRule]:
        return {atom for atom in atoms(parse_rules(role)) if atom.paths or atom.resources[0] in served}

    for ours in default_roles.cluster_roles():
        theirs = admin.ask("GET", f"{BASE}/clusterroles/{ours['metadata']['name']}").body
        assert about_ours(ours) == set(atoms(parse_rules(ours))) == about_ours(theirs), ours["metadata"][
            "name"
        ]
        for key in ("labels", "annotations"):
            assert ours["metadata"][key] == theirs["metadata"][key]
        assert ours.get("aggregationRule") == theirs.get("aggregationRule")
    for binding in default_roles.cluster_role_bindings():
        real = admin.ask("GET", f"{BASE}/clusterrolebindings/{binding['metadata']['name']}").body
        assert (binding["roleRef"], binding["subjects"]) == (real["roleRef"], real["subjects"])


class ServerObjects:
    """The server's own objects, as token requests look them up."""

    def __init__(self, admin: RawApi) -> None:
        self._admin = admin

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        scope = f"namespaces/{namespace}/" if namespace else ""
        answer = self._admin.ask("GET", f"/api/v1/{scope}{resource}/{name}")
        return answer.body if answer.code == 200 else None


@pytest.fixture(scope="module")
def tokens(admin: RawApi, tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    """Our issuer over the server's objects, with an account and pods to bind to."""
    made(admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "tok"}}))
    made(admin.ask("POST", "/api/v1/namespaces/tok/serviceaccounts", {"metadata": {"name": "sa"}}))
    container = {"name": "c", "image": "i"}
    for name, account in (("mine", "sa"), ("other", "other")):
        spec = {"serviceAccountName": account, "nodeName": "n", "containers": [container]}
        made(admin.ask("POST", "/api/v1/namespaces/tok/pods", {"metadata": {"name": name}, "spec": spec}))
    key = token_keys.load_or_create(Path(tmp_path_factory.mktemp("keys")) / "sa.key")
    return Tokens(key, ServerObjects(admin), lambda: datetime.now(UTC))


def _bound_to(kind: str, name: str, version: str = "v1", uid: str = "") -> dict[str, Any]:
    return {"spec": {"boundObjectRef": {"kind": kind, "apiVersion": version, "name": name, "uid": uid}}}


TOKEN_REQUESTS: list[dict[str, Any]] = [
    {},
    *({"spec": {"expirationSeconds": seconds}} for seconds in (600, 599, 0, -1, 2**32, 2**32 + 1)),
    {"metadata": {"name": "sa", "namespace": "tok"}, "spec": {"audiences": ["a", "b"]}},
    {"metadata": {"name": "zz"}},
    {"metadata": {"namespace": "zz"}},
    {"metadata": {"uid": "zz"}},
    _bound_to("Pod", "mine"),
    _bound_to("Pod", "other"),
    _bound_to("Pod", "missing"),
    _bound_to("Pod", "mine", uid="1"),
    _bound_to("Node", "none"),
    _bound_to("Secret", "none"),
    _bound_to("ConfigMap", "x"),
    _bound_to("Deployment", "x", "apps/v1"),
    {"spec": {"boundObjectRef": {}}},
]


@pytest.mark.parametrize("number", range(len(TOKEN_REQUESTS)))
def test_token_requests_are_answered_the_same(admin: RawApi, tokens: Tokens, number: int) -> None:
    body = TOKEN_REQUESTS[number]
    theirs = admin.ask("POST", "/api/v1/namespaces/tok/serviceaccounts/sa/token", body)
    assert refused(token_api.token_request, tokens, "tok", "sa", body) == answered(theirs)
    if theirs.code == 201:
        ours = token_api.token_request(tokens, "tok", "sa", body).answer
        theirs.body["metadata"].pop("managedFields")
        assert _timeless(ours) == _timeless(theirs.body)
        review = token_api.token_review(
            tokens, {"spec": {"token": ours["status"]["token"], "audiences": ["a", tokens.issuer]}}
        )
        spec = {"token": theirs.body["status"]["token"], "audiences": ["a", tokens.issuer]}
        real = admin.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": spec}).body
        assert _timeless(review["status"]) == _timeless(real["status"])


def test_a_token_for_nobody_is_not_found(admin: RawApi, tokens: Tokens) -> None:
    theirs = admin.ask("POST", "/api/v1/namespaces/tok/serviceaccounts/nope/token", {})
    assert refused(token_api.token_request, tokens, "tok", "nope", {}) == answered(theirs)


def _timeless(obj: Any) -> Any:
    """Return an answer without what is different each time."""
    if isinstance(obj, dict):
        return {
            k: _timeless(v)
            for k, v in obj.items()
            if k not in {"token", "creationTimestamp", "expirationTimestamp"}
        }
    if isinstance(obj, list):
        return [_timeless(one) for one in obj]
    return "JTI" if isinstance(obj, str) and obj.startswith("JTI=") else obj


_BOTH = {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x"}}
ACCESS_REVIEWS: list[tuple[str, dict[str, Any]]] = [
    ("subjectaccessreviews", {}),
    ("subjectaccessreviews", {"spec": {"user": "x", **_BOTH}}),
    ("subjectaccessreviews", {"spec": {"groups": ["system:masters"], "resourceAttributes": {"verb": "get"}}}),
    ("subjectaccessreviews", {"spec": {"user": "x", "uid": None, "resourceAttributes": {"verb": "get"}}}),
    ("selfsubjectaccessreviews", {}),
    ("selfsubjectaccessreviews", {"spec": _BOTH}),
    ("selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
    ("selfsubjectaccessreviews", {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/api"}}}),
    ("local", {"spec": {"user": "bob", "resourceAttributes": {"verb": "get", "namespace": "other"}}}),
    ("local", {"spec": {"user": "bob", "resourceAttributes": {"verb": "get"}}}),
    ("local", {"spec": {"user": "bob", "resourceAttributes": {"verb": "get", "namespace": "default"}}}),
    ("local", {"spec": {"user": "bob", "nonResourceAttributes": {"verb": "get"}}}),
    ("selfsubjectrulesreviews", {"spec": {}}),
    ("selfsubjectreviews", {}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ACCESS_REVIEWS)))
def test_reviews_are_answered_the_same(admin: RawApi, number: int) -> None:
    kind, body = ACCESS_REVIEWS[number]
    user, authorizer = User("rev", (AUTHENTICATED,)), Authorizer(lister_of(admin))
    calls: dict[str, Callable[[], dict[str, Any]]] = {
        "subjectaccessreviews": lambda: access_reviews.subject_access_review(authorizer, body),
        "selfsubjectaccessreviews": lambda: access_reviews.self_subject_access_review(authorizer, user, body),
        "local": lambda: access_reviews.local_subject_access_review(authorizer, "default", body),
        "selfsubjectrulesreviews": lambda: access_reviews.self_subject_rules_review(authorizer, user, body),
        "selfsubjectreviews": lambda: access_reviews.self_subject_review(user, datetime.now(UTC)),
    }
    paths = {
        "local": f"{REVIEWS}/namespaces/default/localsubjectaccessreviews",
        "selfsubjectreviews": "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    }
    path, call = paths.get(kind, f"{REVIEWS}/{kind}"), calls[kind]
    self_asked = kind.startswith("self")
    theirs = admin.as_user("rev", "POST", path, body) if self_asked else admin.ask("POST", path, body)
    assert refused(call) == answered(theirs)
    if theirs.code == 201:
        theirs.body["metadata"].pop("managedFields", None)
        assert _timeless(call()) == _timeless(theirs.body)


def test_rules_reviews_list_the_same_rules(admin: RawApi, writers: tuple[World, Authorizer]) -> None:
    world, authorizer = writers
    for name in world.users:
        body = {"spec": {"namespace": world.namespaces[1]}}
        theirs = made(admin.as_user(name, "POST", f"{REVIEWS}/selfsubjectrulesreviews", body))["status"]
        account = split_service_account(name)
        groups = service_account_groups(account[0]) if account else ()
        user = User(name, (*groups, AUTHENTICATED))
        ours = access_reviews.self_subject_rules_review(authorizer, user, body)["status"]
        for key in ("resourceRules", "nonResourceRules"):
            assert sorted(ours[key], key=repr) == sorted(theirs[key], key=repr)
        assert sorted(_MISSING.findall(ours.get("evaluationError", ""))) == sorted(
            _MISSING.findall(theirs.get("evaluationError", ""))
        )
