"""Everything that one host may try with what belongs to another, and what came of it, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.api import kinds
from nodemanager.client.verbs import Client
from support.joined_host import MERGE, Reply, ask

APPLY = "application/apply-patch+yaml"
OURS = "/apis/common.nodemanager/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
VERBS = ("get", "list", "watch", "create", "update", "patch", "apply", "delete", "deletecollection")
READS = ("get", "list", "watch")
DOCUMENTED = {(kind, verb) for kind in ("ManagedNode", "ConfigSet", "NodeTask") for verb in READS} | {
    (kind, "get") for kind in ("ConfigSetRevision", "ConfigSetPreview")
}
"""All that a host may do with what is not its own: read what is declared, and what hosts tell of it.

Revisions and proposals it may read whose names it knows, but not list.
"""
REFUSED = 403


@dataclass(frozen=True)
class Attempt:
    """One verb on one object."""

    what: str
    verb: str
    method: str
    target: str
    body: Any = None
    content: str = ""

    async def made(self, client: Client) -> Reply:
        return await ask(client, self.method, self.target, self.body, self.content)


def meta(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    found = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"metadata": {**found, **more}}


def node(name: str, namespace: str, **more: Any) -> dict[str, Any]:
    """Return a ManagedNode."""
    return {**custom("ManagedNode", name, namespace, **more.pop("metadata", {})), **more}


def custom(kind: str, name: str, namespace: str, **more: Any) -> dict[str, Any]:
    """Return an object of one of our kinds."""
    return {"apiVersion": "common.nodemanager/v1", "kind": kind, **meta(name, namespace, **more)}


def lease(name: str, namespace: str, holder: str) -> dict[str, Any]:
    """Return a Lease that somebody holds."""
    return {**meta(name, namespace), "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60}}


def event(name: str, namespace: str, about: str) -> dict[str, Any]:
    """Return an Event about a host."""
    reference = {"kind": "ManagedNode", "apiVersion": "common.nodemanager/v1", "name": about,
                 "namespace": namespace}  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Event", **meta(name, namespace), "involvedObject": reference,
        "reason": "Test", "message": "said so", "type": "Normal",
    }  # fmt: skip


def task(name: str, namespace: str, host: str) -> dict[str, Any]:
    """Return a NodeTask for a host."""
    steps = [{"name": "one", "execution": {"argv": ["true"]}}]
    spec = {"nodeName": host, "deadline": "2099-01-01T00:00:00Z", "fencingToken": 1, "steps": steps}
    about = meta(name, namespace, labels={"maintenance.nodemanager/node": host})
    return {"apiVersion": "maintenance.nodemanager/v1alpha1", "kind": "NodeTask", **about, "spec": spec}


UNPRIVILEGED = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
"""What Pod security `restricted` demands, which `nodemanager rbac` labels our namespace with."""
HARMLESS = {
    "name": "a",
    "image": "a",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}


def belongings(host: str, here: str, thief: str) -> dict[str, tuple[str, str, Any]]:
    """Return what an administrator puts there for the attempts: its folder, its name, and itself."""
    core = f"/api/v1/namespaces/{here}"
    mine = f"nodemanager-{host}"
    name = f"of-{host}"
    pod = {**meta(name), "spec": {"securityContext": UNPRIVILEGED, "containers": [HARMLESS]}}
    return {
        "ManagedNode": (f"{OURS}/{here}/managednodes", host, node(host, here)),
        "Lease": (f"{LEASES}/{here}/leases", mine, lease(mine, here, thief)),
        "Lease of its lock group": (f"{LEASES}/{here}/leases", name, lease(name, here, thief)),
        "WireGuard key": (f"{core}/secrets", f"wg-wg0-{host}", meta(f"wg-wg0-{host}")),
        "Secret": (f"{core}/secrets", name, meta(name)),
        "ConfigMap": (f"{core}/configmaps", name, meta(name)),
        "Event": (f"{core}/events", name, event(name, here, host)),
        "Pod": (f"{core}/pods", name, pod),
        "ConfigSet": (f"{OURS}/{here}/configsets", name, custom("ConfigSet", name, here)),
    }  # fmt: skip


def _others(host: str, here: str) -> dict[str, tuple[str, str, Any]]:
    """Return what is there without our help, or must never come into being."""
    mine, roles = f"nodemanager-{host}", f"{RBAC}/namespaces/{here}"
    bound = f"nodemanager:{here}:{host}"
    found: dict[str, tuple[str, str, Any]] = {
        "ServiceAccount": (f"/api/v1/namespaces/{here}/serviceaccounts", mine, meta(mine)),
        "Node": ("/api/v1/nodes", host, meta(host)),
        "Namespace": ("/api/v1/namespaces", here, meta(here)),
        "ClusterRole": (f"{RBAC}/clusterroles", "nodemanager-node", meta("nodemanager-node")),
        "ClusterRoleBinding": (f"{RBAC}/clusterrolebindings", bound, _binding(bound, "ClusterRole", "admin")),
        "policy": (f"{POLICIES}/validatingadmissionpolicies", "nodemanager-hosts", meta("nodemanager-hosts")),
        "policy's binding": (
            f"{POLICIES}/validatingadmissionpolicybindings", "nodemanager-hosts", meta("nodemanager-hosts"),
        ),
    }  # fmt: skip
    for suffix in ("", "-token-refresh", "-references"):
        name = mine + suffix
        found[f"Role HOST{suffix}"] = (f"{roles}/roles", name, meta(name))
        found[f"RoleBinding HOST{suffix}"] = (f"{roles}/rolebindings", name, _binding(name, "Role", name))
    for kind in kinds.KINDS:  # whatever kinds will be added
        one, name = kind.resource, f"of-{host}"
        if one.kind not in {"ManagedNode", "ConfigSet"}:
            body = {"apiVersion": one.api_version, "kind": one.kind, **meta(name)}
            found[one.kind] = (one.path(here), name, body)
    return found


def _binding(name: str, kind: str, role: str) -> dict[str, Any]:
    return {**meta(name), "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}}


def attempts(host: str, namespace: str, thief: str) -> list[Attempt]:
    """Return every verb on every object of a host, for another to try."""
    found: list[Attempt] = []
    for what, target in (belongings(host, namespace, thief) | _others(host, namespace)).items():
        found += _verbs(what, *target)
    return [*found, *_subresources(host, namespace)]


def _verbs(what: str, folder: str, name: str, body: Any) -> Iterator[Attempt]:
    one, only = f"{folder}/{name}", f"{folder}?fieldSelector=metadata.name%3D{name}"
    yield Attempt(what, "get", "GET", one)
    yield Attempt(what, "list", "GET", only)
    yield Attempt(what, "watch", "GET", f"{only}&watch=1&timeoutSeconds=1")
    yield Attempt(what, "create", "POST", folder, body)
    yield Attempt(what, "update", "PUT", one, body)
    yield Attempt(what, "patch", "PATCH", one, {"metadata": {"annotations": {"a": "b"}}}, MERGE)
    yield Attempt(what, "apply", "PATCH", f"{one}?fieldManager=me&force=true", body, APPLY)
    yield Attempt(what, "delete", "DELETE", one)
    yield Attempt(what, "deletecollection", "DELETE", only)


def _subresources(host: str, here: str) -> Iterator[Attempt]:
    core, status = f"/api/v1/namespaces/{here}", {"status": {"agentVersion": "1"}}
    folder = f"{OURS}/{here}/managednodes/{host}/status"
    whole = node(host, here, **status)
    yield Attempt("ManagedNode/status", "get", "GET", folder)
    yield Attempt("ManagedNode/status", "update", "PUT", folder, whole)
    yield Attempt("ManagedNode/status", "patch", "PATCH", folder, status, MERGE)
    yield Attempt("ManagedNode/status", "apply", "PATCH", f"{folder}?fieldManager=me", whole, APPLY)
    account = f"{core}/serviceaccounts/nodemanager-{host}/token"
    yield Attempt("ServiceAccount/token", "create", "POST", account, {"spec": {}})
    pod = f"{core}/pods/of-{host}/eviction"
    yield Attempt("Pod/eviction", "create", "POST", pod, meta(f"of-{host}", here))
    sets = f"{OURS}/{here}/configsets/of-{host}/status"
    yield Attempt("ConfigSet/status", "patch", "PATCH", sets, {"status": {}}, MERGE)
    yield Attempt("Node/status", "patch", "PATCH", f"/api/v1/nodes/{host}/status", {"status": {}}, MERGE)


async def tried(client: Client, host: str, namespace: str, thief: str) -> dict[tuple[str, str], int]:
    """Return the code of every attempt, by object and verb."""
    return {(one.what, one.verb): (await one.made(client)).code for one in attempts(host, namespace, thief)}


def allowed(codes: Mapping[tuple[str, str], int]) -> set[tuple[str, str]]:
    """Return what was not refused."""
    return {tried for tried, code in codes.items() if code != REFUSED}


def table(codes: Mapping[tuple[str, str], int]) -> str:
    """Return it for people: objects down, verbs across."""
    lines = [f"| object of the other host | {' | '.join(VERBS)} |", "|---" * (len(VERBS) + 1) + "|"]
    lines += [
        f"| {what} | {' | '.join(str(codes.get((what, verb), '')) for verb in VERBS)} |"
        for what in dict.fromkeys(what for what, _ in codes)
    ]
    return "\n".join(lines)
