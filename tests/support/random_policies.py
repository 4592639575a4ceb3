"""Random match constraints, and requests that some of them match: the same for the same seed."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

Spec = dict[str, Any]
GROUPS = ["", "rbac.authorization.k8s.io", "policies.test"]
VERSIONS = ["v1", "v2"]
OPERATIONS = ["CREATE", "UPDATE", "DELETE"]
RESOURCES = ["configmaps", "serviceaccounts", "namespaces", "clusterroles", "things"]
PARTS = ["things/status", "things/*", "*/status", "configmaps/*", "namespaces/*"]
LABELS = {"app": ["web", "db"], "team": ["red", "green"]}
NAMES = ["a", "b"]


class Request(NamedTuple):
    """One dry run."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]


def labels(dice: random.Random) -> dict[str, str]:
    """Return some labels, or none."""
    return {key: dice.choice(values) for key, values in LABELS.items() if dice.random() < 0.6}


def _some(dice: random.Random, values: list[str], wildcard: float = 0.3) -> list[str]:
    return ["*"] if dice.random() < wildcard else dice.sample(values, dice.randint(1, len(values)))


def _selector(dice: random.Random) -> Spec:
    if dice.random() < 0.5:
        return {}
    key = dice.choice(list(LABELS))
    operator = dice.choice(["In", "NotIn", "Exists", "DoesNotExist"])
    values = dice.sample(LABELS[key], 1) if operator in ("In", "NotIn") else []
    if dice.random() < 0.3:
        return {"matchLabels": {key: dice.choice(LABELS[key])}}
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


def _rule(dice: random.Random) -> Spec:
    resources = dice.choice([["*"], ["*/*"], [dice.choice(PARTS)], dice.sample(RESOURCES, 2), RESOURCES])
    rule: Spec = {
        "apiGroups": _some(dice, GROUPS),
        "apiVersions": _some(dice, VERSIONS, 0.2),
        "operations": _some(dice, OPERATIONS),
        "resources": resources,
        "scope": dice.choice(["*", "*", "Cluster", "Namespaced"]),
    }
    return {**rule, "resourceNames": dice.sample(NAMES, 1)} if dice.random() < 0.2 else rule


def constraints(dice: random.Random) -> Spec:
    """Return match constraints that are valid."""
    return {
        "resourceRules": [_rule(dice) for _ in range(dice.randint(1, 2))],
        "excludeResourceRules": [_rule(dice)] if dice.random() < 0.3 else [],
        "namespaceSelector": _selector(dice),
        "objectSelector": _selector(dice),
        "matchPolicy": dice.choice(["Exact", "Equivalent"]),
    }


def request(dice: random.Random, namespace: str) -> Request:
    """Return a request about something in a namespace where `a` and `b` exist of everything."""
    kind = dice.choice(
        [
            f"/api/v1/namespaces/{namespace}/configmaps",
            f"/api/v1/namespaces/{namespace}/serviceaccounts",
            f"/apis/policies.test/v1/namespaces/{namespace}/things",
            f"/apis/policies.test/v2/namespaces/{namespace}/things",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/api/v1/namespaces",
        ]
    )
    patch = {"Content-Type": "application/merge-patch+json"}
    body: Spec = {"metadata": {"labels": labels(dice)}}
    name = namespace if kind == "/api/v1/namespaces" else dice.choice(NAMES)
    if kind.endswith("clusterroles"):
        name = f"{namespace}-role"
    method = dice.choice(["POST", "PATCH", "DELETE"])
    if method == "POST":
        body["metadata"]["name"] = f"{namespace}-new" if name not in NAMES else dice.choice(["c", "d"])
        if "things" in kind:
            body |= {"apiVersion": kind.split("/")[2] + "/" + kind.split("/")[3], "kind": "Thing"}
        return Request(method, f"{kind}?dryRun=All", body, {})
    if method == "DELETE":
        return Request(method, f"{kind}/{name}?dryRun=All", None, {})
    if "things" in kind and dice.random() < 0.5:
        return Request(method, f"{kind}/{name}/status?dryRun=All", {"status": {"ok": True}}, patch)
    return Request(method, f"{kind}/{name}?dryRun=All", body, patch)
