"""Random RBAC objects and questions about them, and listers over lists and over a real server."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.kube.rbac.identity import service_account_user
from support.raw_api import RawApi

RBAC = "rbac.authorization.k8s.io"
BASE = f"/apis/{RBAC}/v1"

VERBS = ["get", "list", "create", "update", "*"]
GROUPS = ["", "apps", "x.example", "*"]
RESOURCES = ["pods", "pods/status", "pods/eviction", "*/status", "secrets", "*", "pods/*", "nodes"]
NAMES = ["one", "two", "three"]
PATHS = ["/a", "/a/*", "/a/b", "/b*", "*", "/", "/healthz**"]

Object = dict[str, Any]


@dataclass
class Lister:
    """RBAC objects in memory; changing `revision` announces a change."""

    revision: int = 1
    objects: dict[str, list[Object]] = field(default_factory=dict)

    def roles(self, namespace: str) -> Iterable[Object]:
        return self._of("roles", namespace)

    def bindings(self, namespace: str) -> Iterable[Object]:
        return self._of("rolebindings", namespace)

    def _of(self, plural: str, namespace: str) -> list[Object]:
        if not namespace:
            return self.objects.get(f"cluster{plural}", [])
        found = self.objects.get(plural, [])
        return [one for one in found if one["metadata"]["namespace"] == namespace]


def lister_of(api: RawApi) -> Lister:
    """Return what a real server has now. Nobody aggregates there, so rules count as they are stored."""
    lister = Lister()
    for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
        found = api.ask("GET", f"{BASE}/{plural}").body["items"]
        lister.objects[plural] = [{k: v for k, v in one.items() if k != "aggregationRule"} for one in found]
    return lister


@dataclass
class World:
    """A generator of objects and questions that share few names, so that they meet often."""

    prefix: str
    seed: int

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.namespaces = [f"{self.prefix}-a", f"{self.prefix}-b"]
        accounts = [service_account_user(space, name) for space in self.namespaces for name in ("sa", "sb")]
        self.users = [f"{self.prefix}-u{number}" for number in range(4)] + accounts
        self.groups = [f"{self.prefix}-g{number}" for number in range(3)]

    def rule(self, *, paths: bool) -> Object:
        """Return a rule, about resources or (where that is allowed) about paths."""
        if paths and self.random.random() < 0.3:
            return {"verbs": self._some(VERBS), "nonResourceURLs": self._some(PATHS)}
        rule = {
            "verbs": self._some(VERBS),
            "apiGroups": self._some(GROUPS),
            "resources": self._some(RESOURCES),
        }
        if self.random.random() < 0.3:
            rule["resourceNames"] = self._some(NAMES)
        return rule

    def role(self, name: str, namespace: str = "") -> Object:
        """Return a Role or, without namespace, a ClusterRole."""
        rules = [self.rule(paths=not namespace) for _ in range(self.random.randint(1, 2))]
        return {"metadata": _metadata(f"{self.prefix}-{name}", namespace), "rules": rules}

    def binding(self, name: str, namespace: str = "") -> Object:
        """Return a binding to one of the roles, or to one that is not there."""
        kind = "Role" if namespace and self.random.random() < 0.5 else "ClusterRole"
        role = f"{self.prefix}-{'r' if kind == 'Role' else 'c'}{self.random.randint(0, 6)}"
        return {
            "metadata": _metadata(f"{self.prefix}-{name}", namespace),
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [self.subject() for _ in range(self.random.randint(1, 2))],
        }

    def subject(self) -> Object:
        """Return a user, a group or a ServiceAccount."""
        match self.random.randint(0, 2):
            case 0:
                return {"kind": "User", "apiGroup": RBAC, "name": self.random.choice(self.users)}
            case 1:
                return {"kind": "Group", "apiGroup": RBAC, "name": self.random.choice(self.groups)}
        name = self.random.choice(["sa", "sb"])
        return {"kind": "ServiceAccount", "name": name, "namespace": self.random.choice(self.namespaces)}

    def objects(self) -> list[tuple[str, Object]]:
        """Return plurals and objects of a small cluster: six roles of seven that are bound."""
        made = [("clusterroles", self.role(f"c{number}")) for number in range(6)]
        made += [("clusterrolebindings", self.binding(f"b{number}")) for number in range(12)]
        for namespace in self.namespaces:
            made += [("roles", self.role(f"r{number}", namespace)) for number in range(6)]
            made += [("rolebindings", self.binding(f"b{number}", namespace)) for number in range(12)]
        return made

    def question(self) -> Object:
        """Return the spec of a SubjectAccessReview."""
        spec: Object = {"user": self.random.choice(self.users)}
        groups = self._some([*self.groups, "system:authenticated"]) if self.random.random() < 0.5 else []
        if self.random.random() < 0.02:
            groups.append("system:masters")
        spec["groups"] = groups
        verb = self.random.choice([*VERBS, "watch"])
        if self.random.random() < 0.2:
            spec["nonResourceAttributes"] = {"verb": verb, "path": self.random.choice([*PATHS, "", "/a/b/c"])}
            return spec
        resource, _, subresource = self.random.choice(RESOURCES).partition("/")
        spec["resourceAttributes"] = {
            "verb": verb,
            "group": self.random.choice(GROUPS),
            "resource": resource,
            "subresource": subresource,
            "name": self.random.choice([*NAMES, ""]),
            "namespace": self.random.choice([*self.namespaces, ""]),
        }
        return spec

    def _some(self, values: list[str]) -> list[str]:
        return self.random.sample(values, self.random.randint(1, 2))


def _metadata(name: str, namespace: str) -> Object:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def bound(name: str, role: str, user: str, namespace: str = "") -> Object:
    """Return a binding of one user to one ClusterRole."""
    return {
        "metadata": _metadata(name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user}],
    }


def path_of(plural: str, obj: Mapping[str, Any]) -> str:
    """Return where an RBAC object is created."""
    namespace = obj["metadata"].get("namespace")
    return f"{BASE}/namespaces/{namespace}/{plural}" if namespace else f"{BASE}/{plural}"
