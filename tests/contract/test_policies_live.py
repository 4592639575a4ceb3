"""Policies as they are used: the agents' own policy, who may write policies, and changes while serving."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from nodemanager.api import crds
from support import policy_server
from support.policy_server import BINDINGS, POLICIES, Server

pytestmark = pytest.mark.xdist_group("live policies")  # one server for all of them
BOTH = ["embedded", pytest.param("kube-apiserver", marks=pytest.mark.xdist_group("apiserver"))]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NODES = "/apis/common.nodemanager/v1/namespaces/nodemanager/managednodes"
AGENT = "system:serviceaccount:nodemanager:agent-"  # our own policy is about others
MERGE = "application/merge-patch+json"
AGENT_POLICY: dict[str, Any] = {
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": ["common.nodemanager"],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["managednodes", "managednodes/status"],
            }
        ]
    },
    "matchConditions": [
        {"name": "is-an-agent", "expression": f"request.userInfo.username.startsWith('{AGENT}')"},
    ],
    "variables": [
        {"name": "host", "expression": f"request.userInfo.username.substring({len(AGENT)})"},
        {"name": "own", "expression": "['nodemanager.io/os', 'nodemanager.io/arch']"},
        {"name": "now", "expression": "object.metadata.?labels.orValue({})"},
        {"name": "before", "expression": "oldObject.metadata.?labels.orValue({})"},
        {
            "name": "foreign",
            "expression": "variables.now.map(k, k).filter(k, !(k in variables.own) && "
            "!(k in variables.before && variables.before[k] == variables.now[k])) + "
            "variables.before.map(k, k).filter(k, !(k in variables.own) && !(k in variables.now))",
        },
    ],
    "validations": [
        {
            "expression": "request.operation == 'UPDATE' && request.name == variables.host",
            "messageExpression": "'the agent of ' + variables.host + ' may only update its own ManagedNode'",
            "reason": "Forbidden",
        },
        {
            "expression": "object.?spec == oldObject.?spec",
            "message": "an agent may not change spec",
            "reason": "Forbidden",
        },
        {
            "expression": "variables.foreign.size() == 0",
            "messageExpression": "'an agent may not change the label ' + string(variables.foreign[0])",
            "reason": "Forbidden",
        },
    ],
}


@pytest.fixture(scope="module", params=BOTH)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with our kinds and our namespace."""
    with contextlib.ExitStack() as stack:
        if request.param == "embedded":
            api = stack.enter_context(policy_server.embedded(tmp_path_factory.mktemp("embedded")))
        else:
            kube = request.getfixturevalue("kube")
            api = stack.enter_context(contextlib.closing(Server(kube.kubeconfig)))
            for crd in crds.all_crds():
                assert api.ask("POST", policy_server.CRDS, crd).code in (201, 409)
            assert api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "nodemanager"}}).code in (
                201,
                409,
            )
            api.until("GET", NODES, None, 200)
        try:
            yield api
        finally:
            api.clean()


def _grant(server: Server, name: str, subject: dict[str, str], *rules: dict[str, Any]) -> None:
    server.make(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    server.make(f"{RBAC}/clusterrolebindings", body)


def _bound(server: Server, name: str, spec: dict[str, Any], *actions: str) -> None:
    server.make(POLICIES, {"metadata": {"name": name}, "spec": spec})
    bound = {"policyName": name, "validationActions": list(actions or ("Deny",))}
    server.make(BINDINGS, {"metadata": {"name": name}, "spec": bound})


@pytest.fixture(scope="module")
def agents(server: Server) -> Server:
    """The server with two hosts, their agents' rights, and the agents' policy."""
    group = {"kind": "Group", "name": "system:serviceaccounts:nodemanager"}
    rule = {
        "apiGroups": ["common.nodemanager"],
        "resources": ["managednodes", "managednodes/status"],
        "verbs": ["create", "get", "update", "patch", "delete"],
    }
    _grant(server, f"{server.run}-agents", group, rule)
    for host in ("web-1", "db-1.example.com"):
        labels = {"role": "web", "nodemanager.io/os": "debian"}
        meta = {"name": f"{server.run}-{host}", "labels": labels}
        server.make(NODES, {"apiVersion": "common.nodemanager/v1", "kind": "ManagedNode", "metadata": meta})
    _bound(server, f"{server.run}-agents", AGENT_POLICY)
    path = f"{NODES}/{server.run}-web-1?dryRun=All"
    headers = {"Impersonate-User": f"{AGENT}nobody", "Content-Type": MERGE}
    server.until("PATCH", path, {}, 403, headers)
    return server


@pytest.mark.parametrize(
    ("who", "path", "patch", "code", "says"),
    [
        ("web-1", "web-1/status", {"status": {"conditions": []}}, 200, ""),
        ("web-1", "web-1", {"metadata": {"labels": {"nodemanager.io/os": "arch"}}}, 200, ""),
        ("web-1", "web-1", {"metadata": {"labels": {"nodemanager.io/arch": "amd64"}}}, 200, ""),
        ("web-1", "web-1", {"metadata": {"annotations": {"seen": "now"}}}, 200, ""),
        ("db-1.example.com", "db-1.example.com/status", {"status": {"conditions": []}}, 200, ""),
        ("web-1", "web-1", {"metadata": {"labels": {"role": "db"}}}, 403, "may not change the label role"),
        ("web-1", "web-1", {"metadata": {"labels": {"role": None}}}, 403, "may not change the label role"),
        ("web-1", "web-1", {"metadata": {"labels": {"new": "x"}}}, 403, "may not change the label new"),
        ("web-1", "web-1", {"spec": {"upgrade": {"group": "x"}}}, 403, "an agent may not change spec"),
        ("web-1", "db-1.example.com", {"metadata": {"labels": {"a": "b"}}}, 403, "only update its own"),
        ("web-1", "db-1.example.com/status", {"status": {"conditions": []}}, 403, "only update its own"),
        (
            "web",
            "web-1/status",
            {"status": {"conditions": []}},
            403,
            "web may only update its own ManagedNode",
        ),
    ],
)
def test_an_agent_reports_about_its_host_and_nothing_else(
    agents: Server, who: str, path: str, patch: Any, code: int, says: str
) -> None:
    headers = {"Impersonate-User": f"{AGENT}{agents.run}-{who}", "Content-Type": MERGE}
    answer = agents.ask("PATCH", f"{NODES}/{agents.run}-{path}?dryRun=All", patch, headers)
    assert answer.code == code, answer.body
    if says:
        assert says in answer.body["message"]
        assert answer.body["reason"] == "Forbidden"


@pytest.mark.parametrize("method", ["DELETE", "POST"])
def test_an_agent_neither_creates_nor_deletes(agents: Server, method: str) -> None:
    headers = {"Impersonate-User": f"{AGENT}{agents.run}-web-1"}
    made = {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ManagedNode",
        "metadata": {"name": f"{agents.run}-x"},
    }
    path, body = (NODES, made) if method == "POST" else (f"{NODES}/{agents.run}-web-1", None)
    answer = agents.ask(method, f"{path}?dryRun=All", body, headers)
    assert (answer.code, "only update its own ManagedNode" in answer.body["message"]) == (403, True)


def test_people_are_not_bound_by_the_policy_of_agents(agents: Server) -> None:
    patch = {"spec": {"upgrade": {"group": "x"}}, "metadata": {"labels": {"role": "db"}}}
    path = f"{NODES}/{agents.run}-web-1?dryRun=All"
    answer = agents.ask("PATCH", path, patch, {"Content-Type": MERGE})
    assert answer.code == 200, answer.body


@pytest.fixture(scope="module")
def writer(server: Server) -> dict[str, str]:
    """Somebody who may write policies, and read nothing else."""
    user = f"{server.run}-writer"
    rule = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}
    _grant(server, user, {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}, rule)
    headers = {"Impersonate-User": user}
    server.until("GET", POLICIES, None, 200, headers)
    return headers


def test_parameters_are_for_those_who_can_read_them(server: Server, writer: dict[str, str]) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    with_params = {**spec, "paramKind": {"apiVersion": "v1", "kind": "Secret"}}
    name = f"{server.run}-secrets"
    policy = {"metadata": {"name": name}, "spec": with_params}
    answer = server.ask("POST", POLICIES, policy, writer)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"].endswith(
        'must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)'
    )
    assert answer.body["details"]["causes"][0]["field"] == "spec.paramKind"
    assert server.ask("POST", f"{POLICIES}?dryRun=All", {**policy, "spec": spec}, writer).code == 201
    server.make(POLICIES, policy)
    ref = {"name": "a", "namespace": "default", "parameterNotFoundAction": "Deny"}
    bound = {"policyName": name, "validationActions": ["Audit"]}
    binding = {"metadata": {"name": name}, "spec": {**bound, "paramRef": ref}}
    answer = server.ask("POST", BINDINGS, binding, writer)
    assert answer.code == 422, answer.body
    assert answer.body["message"].endswith('"get" permission on the object referenced by paramRef')
    unknown = {**bound, "policyName": f"{name}-none", "paramRef": ref}
    answer = server.ask("POST", BINDINGS, {**binding, "spec": unknown}, writer)
    assert answer.body["message"].endswith('"get" permission for all groups, versions and resources')
    assert server.ask("POST", f"{BINDINGS}?dryRun=All", {**binding, "spec": bound}, writer).code == 201


def test_discovery_and_status_of_policies(server: Server) -> None:
    listed = server.ask("GET", policy_server.GROUP).body["resources"]
    names = {one["name"] for one in listed}
    plural = "validatingadmissionpolicies"
    assert {plural, f"{plural}/status", "validatingadmissionpolicybindings"} <= names
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    body = {"metadata": {"name": f"{server.run}-status"}, "spec": spec, "status": {"observedGeneration": 7}}
    made = server.make(POLICIES, body)
    assert made["metadata"]["generation"] == 1
    assert made["status"] == {}
    path = f"{POLICIES}/{server.run}-status/status"
    patched = server.ask("PATCH", path, {"status": {"observedGeneration": 1}}, {"Content-Type": MERGE}).body
    assert patched["status"] == {"observedGeneration": 1}
