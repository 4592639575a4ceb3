"""kubectl asks who may do what, what is served, and describes: the same on both servers."""

from __future__ import annotations

import base64
import json
import re
import uuid
from typing import Any

import pytest
import yaml

from nodemanager.api import kinds
from support import kubeconfigs
from support.either import Place, kubectl_since

NO_TYPE = 'the server doesn\'t have a resource type "nonesuch"\n'


def rows(table: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


@kubectl_since(22, "create pdb asks for policy/v1")
def test_commands_that_create(place: Place) -> None:
    for kind, *command in (
        ("configmap", "configmap", "c", "--from-literal=a=b"),
        ("secret", "secret", "generic", "s", "--from-literal=a=b"),
        ("secret", "secret", "docker-registry", "d", "--docker-username=u", "--docker-password=p"),
        ("serviceaccount", "serviceaccount", "a"),
        ("role.rbac.authorization.k8s.io", "role", "r", "--verb=get,list", "--resource=pods,configsets"),
        ("rolebinding.rbac.authorization.k8s.io", "rolebinding", "b", "--role=r", "--user=u"),
        ("poddisruptionbudget.policy", "pdb", "p", "--selector=a=b", "--min-available=50%"),
    ):
        name = command[2] if command[0] == "secret" else command[1]
        assert place.kubectl("create", *command) == f"{kind}/{name} created\n"
    assert place.kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    assert place.shown("secret", "d")["type"] == "kubernetes.io/dockerconfigjson"
    assert place.shown("role", "r")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["common.nodemanager"], "resources": ["configsets"], "verbs": ["get", "list"]},
    ]
    assert place.shown("rolebinding", "b")["subjects"] == [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}
    ]


@kubectl_since(27, "auth whoami")
def test_who_may_do_what(place: Place) -> None:
    account = f"system:serviceaccount:{place.namespace}:a"
    place.kubectl("create", "serviceaccount", "a")
    place.kubectl("create", "role", "r", "--verb=get,list", "--resource=configmaps")
    place.kubectl("create", "rolebinding", "b", "--role=r", f"--serviceaccount={place.namespace}:a")
    assert place.kubectl("auth", "can-i", "*", "*") == "yes\n"
    assert place.kubectl("auth", "can-i", "get", "configmaps", "--as", account) == "yes\n"
    no = place.run("auth", "can-i", "delete", "configmaps", "--as", account)
    assert (no.returncode, no.stdout) == (1, "no\n")
    listed = rows(place.kubectl("auth", "can-i", "--list", "--as", account))
    assert listed[0] == ["Resources", "Non-Resource URLs", "Resource Names", "Verbs"]
    assert ["configmaps", "[]", "[]", "[get list]"] in listed
    assert ["selfsubjectreviews.authentication.k8s.io", "[]", "[]", "[create]"] in listed
    assert place.refused("get", "secrets", "--as", account) == (
        f'Error from server (Forbidden): secrets is forbidden: User "{account}" cannot list resource '
        f'"secrets" in API group "" in the namespace "{place.namespace}"\n'
    )
    who = place.kubectl("auth", "whoami", "--as=bob", "--as-group=friends", "-o", "json")
    assert json.loads(who)["status"]["userInfo"] == {
        "username": "bob", "groups": ["friends", "system:authenticated"],
    }  # fmt: skip


def test_urls_that_are_no_resources(place: Place) -> None:
    name = f"reader-{place.namespace}"
    place.kubectl("create", "clusterrole", name, "--verb=get", "--non-resource-url=/metrics")
    place.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--group={name}")
    ask = ("auth", "can-i", "get", "/metrics", "--as=bob")
    assert place.kubectl(*ask, f"--as-group={name}") == "yes\n"
    assert place.run(*ask).stdout == "no\n"


@kubectl_since(24, "create token")
def test_a_token_of_a_service_account(place: Place) -> None:
    place.kubectl("create", "serviceaccount", "a")
    token = place.kubectl("create", "token", "a", "--duration=10m", "--audience=api").strip()
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert claims["sub"] == f"system:serviceaccount:{place.namespace}:a"
    assert claims["aud"] == ["api"]
    assert claims["exp"] - claims["iat"] == 600
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == "a"
    assert place.refused("create", "token", "nope") == (
        'error: failed to create token: serviceaccounts "nope" not found\n'
    )
    assert "may not specify a duration less than 10 minutes" in place.refused(
        "create", "token", "a", "--duration=1m"
    )


@kubectl_since(24, "create token")
def test_kubectl_with_a_token_instead_of_a_certificate(place: Place) -> None:
    place.kubectl("create", "serviceaccount", "a")
    place.kubectl("create", "role", "r", "--verb=get,list", "--resource=configmaps")
    place.kubectl("create", "rolebinding", "b", "--role=r", f"--serviceaccount={place.namespace}:a")
    config = yaml.safe_load(place.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": place.kubectl("create", "token", "a").strip()}
    path = kubeconfigs.write(place.kubeconfig.parent / "token.kubeconfig", config)
    assert place.kubectl("get", "configmaps", "--kubeconfig", path) == ""
    assert "cannot list resource" in place.refused("get", "secrets", "--kubeconfig", path)
    config["users"][0]["user"] = {"token": "nonsense"}
    path = kubeconfigs.write(place.kubeconfig.parent / "wrong.kubeconfig", config)
    assert place.refused("get", "--raw", "/api", "--kubeconfig", path) == (
        "error: You must be logged in to the server (Unauthorized)\n"
    )


def test_reconciling_roles(place: Place) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r", "namespace": place.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    done = "role.rbac.authorization.k8s.io/r reconciled\n"
    assert place.kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps(role)).startswith(done)
    role["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert place.kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps(role)).startswith(done)
    assert len(place.shown("role", "r")["rules"]) == 2


NEWER = "newsets"
"""A kind that another test leaves on a server that it shares with this one."""


@kubectl_since(26, "categories of api-resources")
def test_what_is_served(place: Place) -> None:
    ours = place.kubectl("api-resources", "--api-group=common.nodemanager", "-o", "wide", "--no-headers")
    verbs = "delete,deletecollection,get,list,patch,create,update,watch"
    assert [row for row in rows(ours) if row[0] != NEWER] == [
        [
            "configsetpreviews",
            "cspreview",
            "common.nodemanager/v1",
            "true",
            "ConfigSetPreview",
            verbs,
            "nodemanager",
        ],
        [
            "configsetrevisions",
            "csrev",
            "common.nodemanager/v1",
            "true",
            "ConfigSetRevision",
            verbs,
            "nodemanager",
        ],
        ["configsets", "cs,cset", "common.nodemanager/v1", "true", "ConfigSet", verbs, "nodemanager"],
        ["managednodes", "mn", "common.nodemanager/v1", "true", "ManagedNode", verbs, "nodemanager"],
        ["rolloutpolicies", "rp", "common.nodemanager/v1", "true", "RolloutPolicy", verbs, "nodemanager"],
    ]
    named = place.kubectl("api-resources", "--categories=nodemanager", "-o", "name").split()
    named = [name for name in named if not name.startswith(f"{NEWER}.")]
    assert sorted(named) == sorted(entry.resource.qualified_name for entry in kinds.KINDS)
    versions = place.kubectl("api-versions").split()
    assert {"v1", "common.nodemanager/v1", "rbac.authorization.k8s.io/v1"} <= set(versions)
    assert "\nServer Version: v1." in place.kubectl("version")
    assert place.refused("get", "nonesuch") == f"error: {NO_TYPE}"


def test_raw_paths(place: Place) -> None:
    for path in ("/readyz", "/livez", "/healthz"):
        assert place.kubectl("get", "--raw", path) == "ok"
    version = json.loads(place.kubectl("get", "--raw", "/version"))
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{version['minor']}.")
    group = json.loads(place.kubectl("get", "--raw", "/apis/common.nodemanager"))
    assert (group["kind"], group["preferredVersion"]["version"]) == ("APIGroup", "v1")
    assert place.refused("get", "--raw", "/nope") == (
        "Error from server (NotFound): the server could not find the requested resource\n"
    )


def test_config_view_keeps_keys_to_itself(place: Place) -> None:
    shown = place.kubectl("config", "view", "--minify")
    assert re.search(r"client-key-data: (DATA\+OMITTED|REDACTED)\n", shown)
    assert f"namespace: {place.namespace}" in shown


@pytest.mark.parametrize("what", ["configset.spec.files", "managednode", "lease.spec", "node.spec.taints"])
def test_explain(place: Place, what: str) -> None:
    """Every field, word for word, is compared in test_openapi_kubectl.py."""
    text = place.kubectl("explain", what)
    assert text.startswith(("GROUP:", "KIND:"))
    assert "FIELDS:" in text
    assert "<no description>" not in text.partition("FIELDS:")[0]


def test_explain_of_what_is_not_there(place: Place) -> None:
    assert NO_TYPE in place.refused("explain", "nonesuch")
    assert place.refused("explain", "configset.spec.nope") == 'error: field "nope" does not exist\n'


def test_nodes_are_cordoned_and_tainted(place: Place) -> None:
    name = f"n-{uuid.uuid4().hex[:8]}"
    labels = {"node-role.kubernetes.io/worker": ""}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    place.kubectl("create", "-f", "-", stdin=json.dumps(node))
    assert place.kubectl("cordon", name) == f"node/{name} cordoned\n"
    assert place.kubectl("cordon", name) == f"node/{name} already cordoned\n"
    cordoned = place.kubectl("get", "nodes", "--field-selector=spec.unschedulable=true", "-o", "name")
    assert f"node/{name}" in cordoned.split()
    assert place.kubectl("uncordon", name) == f"node/{name} uncordoned\n"
    assert place.kubectl("taint", "node", name, "a=b:NoSchedule") == f"node/{name} tainted\n"
    assert place.refused("taint", "node", name, "a=b:NoSchedule") == (
        f"error: node {name} already has a taint(s) with same effect(s) and --overwrite is false\n"
    )
    place.kubectl("taint", "node", name, "a=c:NoSchedule", "--overwrite")
    taints = place.shown("node", name)["spec"]["taints"]
    assert {"key": "a", "value": "c", "effect": "NoSchedule"} in taints
    assert place.kubectl("taint", "node", name, "a-") == f"node/{name} untainted\n"
    drained = place.kubectl("drain", name, "--ignore-daemonsets")
    assert f"node/{name} drained" in drained
    place.kubectl("delete", "node", name)


@kubectl_since(24, "--subresource")
def test_a_node_that_reports(place: Place) -> None:
    name = f"n-{uuid.uuid4().hex[:8]}"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    place.kubectl("create", "-f", "-", stdin=json.dumps(node))
    info = dict.fromkeys(
        ("bootID", "containerRuntimeVersion", "kubeProxyVersion", "machineID", "systemUUID"), ""
    )
    info |= {
        "kubeletVersion": "v1.36.0",
        "osImage": "Debian",
        "kernelVersion": "6.1",
        "architecture": "arm64",
    }
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m"}],
        "nodeInfo": {**info, "operatingSystem": "linux"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }
    patch = ("patch", "node", name, "--subresource=status", "-p")
    place.kubectl(*patch, json.dumps({"status": status}))
    more = {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}
    place.kubectl(*patch, json.dumps(more))  # merged by type, because a strategic patch knows the key
    types = [one["type"] for one in place.shown("node", name)["status"]["conditions"]]
    assert sorted(types) == ["DiskPressure", "Ready"]
    head, row = rows(place.kubectl("get", "node", name, "-o", "wide"))
    assert head[1:3] == ["STATUS", "ROLES"]
    assert [*row[:3], *row[4:]] == [
        name, "Ready", "<none>", "v1.36.0", "10.0.0.1", "<none>", "Debian", "6.1 (arm64)", "<unknown>",
    ]  # fmt: skip
    described = place.kubectl("describe", "node", name)
    assert "OS Image:                   Debian" in described
    place.kubectl("wait", f"node/{name}", "--for=condition=Ready", "--timeout=10s")
    place.kubectl("delete", "node", name)


@kubectl_since(26, "kubectl events")
def test_events(place: Place) -> None:
    about = {"apiVersion": "common.nodemanager/v1", "kind": "ConfigSet", "name": "clock"}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1"},
        "involvedObject": {**about, "namespace": place.namespace},
        "reason": "Applied",
        "message": "hello",
        "type": "Normal",
        "source": {"component": "t"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 2,
    }
    place.kubectl("create", "-f", "-", stdin=json.dumps(event))
    for command in (("events",), ("events", "--for=configset/clock"), ("get", "events")):
        head, row = rows(place.kubectl(*command))
        assert head == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        assert [cell.lower() for cell in row[-4:]] == ["normal", "applied", "configset/clock", "hello"]
    assert place.kubectl("events", "--types=Warning") == ""
    chosen = "--field-selector=involvedObject.name=clock,type=Normal"
    assert place.kubectl("get", "events", chosen, "-o", "name") == "event/e1\n"
    newer = place.shown("events.v1.events.k8s.io", "e1")
    assert (newer["note"], newer["regarding"]["name"], newer["deprecatedCount"]) == ("hello", "clock", 2)
    assert newer["deprecatedSource"] == {"component": "t"}


def test_describe(place: Place) -> None:
    for kind, name, more in (("ConfigSet", "clock", {"priority": 3}), ("ManagedNode", "h1", {})):
        obj = {"apiVersion": "common.nodemanager/v1", "kind": kind, "metadata": {"name": name}, "spec": more}
        place.kubectl("create", "-f", "-", stdin=json.dumps(obj))
    place.kubectl("create", "secret", "generic", "s", "--from-literal=a=hidden")
    described = place.kubectl("describe", "configset", "clock")
    assert [line.split() for line in described.splitlines()[:2]] == [
        ["Name:", "clock"],
        ["Namespace:", place.namespace],
    ]
    assert re.search(r"Priority: +3\n", described)
    assert re.search(r"Events: +<none>\n$", described)
    assert re.search(r"Kind: +ManagedNode\n", place.kubectl("describe", "mn", "h1"))
    secret = place.kubectl("describe", "secret", "s")
    assert re.search(r"Type: +Opaque\n", secret)
    assert "a:  6 bytes" in secret
    assert "hidden" not in secret
    place.kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    assert re.search(r"pods +\[\] +\[\] +\[get\]", place.kubectl("describe", "role", "r"))


def test_pods_are_stored(place: Place) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    text = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod})
    place.kubectl("create", "-f", "-", stdin=text)
    (row,) = rows(place.kubectl("get", "pods", "--no-headers"))
    assert row[:4] == ["p", "0/1", "Pending", "0"]
    assert "pod/p" in place.kubectl("get", "all", "-o", "name").split()
    gone = place.kubectl("delete", "pod", "p", "--grace-period=0", "--force")
    assert gone == 'pod "p" force deleted\n'
