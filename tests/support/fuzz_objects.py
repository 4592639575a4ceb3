"""Random objects of the built-in kinds: few names and values, so that writes meet often."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from nodemanager.kube.objects import Untyped
from support.random_schemas import Maker

RBAC = "rbac.authorization.k8s.io"
TIMES = ("2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:06.000000Z")
SECONDS = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind to write objects of."""

    group: str
    kind: str
    plural: str
    make: Callable[[Objects], Untyped]
    """Returns everything but apiVersion, kind and metadata."""
    namespaced: bool = True
    status: Callable[[Objects], Any] | None = None
    custom: bool = False
    updates: bool = True
    """Whether its objects are updated and patched, too."""
    fields: tuple[str, ...] = ()
    """Field selectors that make sense, or not."""
    bytes: str = ""
    """The field with a map of bytes, in which nothing is null (see `Steps`)."""
    schema: dict[str, Any] | None = field(default=None, compare=False, hash=False)
    """Of a custom kind."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/v1" if self.group else "v1"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return where its objects are."""
        root = f"/apis/{self.group}/v1" if self.group else "/api/v1"
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"{root}{place}/{self.plural}", name, subresource) if part)


class Objects:
    """Draws parts of objects."""

    def __init__(self, random: Random, namespace: str) -> None:
        self.random = random
        self.namespace = namespace

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one(self, *choices: Any) -> Any:
        return copy.deepcopy(self.random.choice(choices))

    def some(self, *choices: Any) -> list[Any]:
        return self.random.sample(choices, self.random.randint(0, min(3, len(choices))))

    def maybe(self, **makers: Callable[[], Any]) -> Untyped:
        """Return some of the fields."""
        return {name: make() for name, make in makers.items() if self.chance(0.5)}

    def texts(self) -> dict[str, str]:
        return {name: self.one("x", "y", "") for name in self.some("a", "b", "c", "d.e")}

    def bytes(self) -> dict[str, str]:
        return {name: self.one("eA==", "eQ==", "") for name in self.some("a", "b", "f")}

    def config_map(self) -> Untyped:
        body = self.maybe(data=self.texts, binaryData=lambda: {"bin": self.one("eA==", "eQ==")})
        return body | ({"immutable": False} if self.chance(0.1) else {})

    def secret(self) -> Untyped:
        body = self.maybe(data=self.bytes, stringData=self.texts)
        kinds = ("Opaque", "example.com/odd", "kubernetes.io/basic-auth", "kubernetes.io/tls", "")
        body |= {"type": self.one(*kinds)} if self.chance(0.3) else {}
        return body | ({"immutable": False} if self.chance(0.1) else {})

    def service_account(self) -> Untyped:
        return self.maybe(
            secrets=lambda: [{"name": name} for name in self.some("s1", "s2", "s3")],
            imagePullSecrets=lambda: [{"name": name} for name in self.some("s1", "s2")],
            automountServiceAccountToken=lambda: self.chance(0.5),
        )

    def lease(self) -> Untyped:
        if self.chance(0.1):
            return {}
        return {
            "spec": self.maybe(
                holderIdentity=lambda: self.one("me", "you", "", "me"),
                leaseDurationSeconds=lambda: self.one(15, 30, 60, 15, 0, -1),
                leaseTransitions=lambda: self.one(0, 1, 2, 1, -1),
                renewTime=lambda: self.one(*TIMES),
                acquireTime=lambda: self.one(*TIMES),
            )
        }

    def event(self) -> Untyped:
        about = {"kind": "Pod", "namespace": self.one(self.namespace, self.namespace, "other"), "name": "p"}
        return {
            "involvedObject": about,
            **self.maybe(
                reason=lambda: self.one("Started", "Stopped"),
                message=lambda: self.one("hello", "bye"),
                type=lambda: self.one("Normal", "Warning"),
                count=lambda: self.one(1, 2),
                firstTimestamp=lambda: self.one(*SECONDS),
                lastTimestamp=lambda: self.one(*SECONDS),
                source=lambda: {"component": self.one("c1", "c2")},
            ),
        }

    def new_event(self) -> Untyped:
        return {
            "regarding": {"kind": "Pod", "namespace": self.namespace, "name": "p"},
            "eventTime": TIMES[0],
            "reportingController": "example.com/c",
            "reportingInstance": "c-1",
            "action": self.one("Start", "Stop"),
            "reason": self.one("Started", "Stopped"),
            "type": self.one("Normal", "Warning"),
            **self.maybe(note=lambda: self.one("hello", "bye")),
        }

    def node(self) -> Untyped:
        spec = self.maybe(
            unschedulable=lambda: self.chance(0.5),
            taints=lambda: [self.taint(key) for key in self.some("k1", "k2")],
            providerID=lambda: self.one("p1", "p1"),
        )
        return {"spec": spec} if self.chance(0.9) else {}

    def taint(self, key: str) -> Untyped:
        effects = ("NoSchedule", "NoExecute", "PreferNoSchedule", "NoSchedule", "Odd")
        return {"key": key, "effect": self.one(*effects), **self.maybe(value=lambda: self.one("v", "w"))}

    def node_status(self) -> Any:
        return self.maybe(
            conditions=lambda: [self.condition(name) for name in self.some("Ready", "Odd")],
            capacity=lambda: {"cpu": self.one("1", "2", "4"), "memory": self.one("1Gi", "512Mi")},
            addresses=lambda: [{"type": "Hostname", "address": self.one("h1", "h2")}],
            phase=lambda: "Running",
        )

    def condition(self, name: str) -> Untyped:
        return {
            "type": name,
            "status": self.one("True", "False"),
            "lastTransitionTime": SECONDS[0],
            "reason": self.one("Good", "Bad"),
            "message": self.one("m", "n"),
        }

    def pod(self) -> Untyped:
        names = self.some("c1", "c2") or ["c1"]
        return {
            "spec": {
                "containers": [self.container(name) for name in names],
                **self.maybe(
                    restartPolicy=lambda: self.one("Always", "Never", "OnFailure"),
                    terminationGracePeriodSeconds=lambda: self.one(0, 5, 30),
                    serviceAccountName=lambda: self.one("default", "sa1"),
                ),
            }
        }

    def container(self, name: str) -> Untyped:
        return {
            "name": name,
            "image": self.one("i", "i:1", "registry.test/i:latest", "i"),
            **self.maybe(
                env=lambda: [{"name": key, "value": self.one("x", "y")} for key in self.some("A", "B")],
                ports=lambda: [{"containerPort": self.one(80, 443) + int(name[1:])}],
            ),
        }

    def pod_status(self) -> Any:
        return self.maybe(
            phase=lambda: self.one("Pending", "Running", "Succeeded"),
            conditions=lambda: [self.condition(name) for name in self.some("Ready", "Initialized")],
            message=lambda: self.one("m", "n"),
        )

    def rules(self) -> list[Untyped]:
        return [self.rule() for _ in range(self.random.randint(0, 2))]

    def rule(self) -> Untyped:
        rule = {
            "apiGroups": self.one([""], ["apps"], ["", "apps"]),
            "resources": self.one(["pods"], ["nodes", "pods"]),
            "verbs": self.one(["get"], ["get", "list"], ["*"]),
            **self.maybe(resourceNames=lambda: self.some("a", "b")),
        }
        if self.chance(0.12):
            del rule[self.one("apiGroups", "resources", "verbs")]
        return rule

    def role(self) -> Untyped:
        return {"rules": self.rules()} if self.chance(0.9) else {}

    def cluster_role(self) -> Untyped:
        body = self.role()
        if self.chance(0.1):
            body["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"fuzz": "x"}}]}
        if self.chance(0.15):
            body.setdefault("rules", []).append({"nonResourceURLs": ["/x"], "verbs": ["get"]})
        return body

    def binding(self) -> Untyped:
        ref = {"apiGroup": RBAC, "kind": self.one("Role", "ClusterRole", "ClusterRole"), "name": "r"}
        if self.chance(0.2):
            del ref[self.one("apiGroup", "kind", "name")]
        return {"roleRef": ref, **self.maybe(subjects=self.subjects)}

    def cluster_binding(self) -> Untyped:
        body = self.binding()
        if self.chance(0.9):
            body["roleRef"]["kind"] = "ClusterRole"
        return body

    def subjects(self) -> list[Untyped]:
        choices = (
            {"kind": "User", "name": "u"},
            {"kind": "Group", "name": "g", "apiGroup": RBAC},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            {"kind": "ServiceAccount", "name": "s"},
            {"kind": "Odd", "name": "o"},
            {"kind": "User", "name": ""},
        )
        return self.random.choices(choices, (8, 8, 8, 1, 1, 1), k=self.random.randint(0, 2))

    def budget(self) -> Untyped:
        spec = {
            "selector": {"matchLabels": self.texts()},
            self.one("minAvailable", "maxUnavailable"): self.one(1, "50%", 0, "10%", 2, -1, "odd"),
            **self.maybe(unhealthyPodEvictionPolicy=lambda: self.one("IfHealthyBudget", "AlwaysAllow")),
        }
        return {"spec": spec}

    def budget_status(self) -> Any:
        counts = {name: self.one(0, 1, 2) for name in ("currentHealthy", "desiredHealthy", "expectedPods")}
        return {**counts, "disruptionsAllowed": self.one(0, 1), "observedGeneration": self.one(1, 2)}

    def namespace_body(self) -> Untyped:
        return {}


BUILTIN = (
    Kind("", "ConfigMap", "configmaps", Objects.config_map, bytes="binaryData"),
    Kind("", "Secret", "secrets", Objects.secret, fields=("type=Opaque",), bytes="data"),
    Kind("", "ServiceAccount", "serviceaccounts", Objects.service_account),
    Kind(
        "",
        "Event",
        "events",
        Objects.event,
        fields=("reason=Started", "involvedObject.name=p", "type!=Normal"),
    ),
    Kind("coordination.k8s.io", "Lease", "leases", Objects.lease),
    Kind("", "Pod", "pods", Objects.pod, updates=False, fields=("spec.nodeName=n1", "status.phase=Pending")),
    Kind(
        "policy", "PodDisruptionBudget", "poddisruptionbudgets", Objects.budget, status=Objects.budget_status
    ),
    Kind(RBAC, "Role", "roles", Objects.role),
    Kind(RBAC, "RoleBinding", "rolebindings", Objects.binding),
    Kind(RBAC, "ClusterRole", "clusterroles", Objects.cluster_role, namespaced=False),
    Kind(RBAC, "ClusterRoleBinding", "clusterrolebindings", Objects.cluster_binding, namespaced=False),
    Kind(
        "",
        "Node",
        "nodes",
        Objects.node,
        namespaced=False,
        status=Objects.node_status,
        fields=("spec.unschedulable=true",),
    ),
    Kind(
        "",
        "Namespace",
        "namespaces",
        Objects.namespace_body,
        namespaced=False,
        fields=("status.phase=Active",),
    ),
)


def custom(group: str, plural: str, kind: str, schema: dict[str, Any]) -> Kind:
    """Return a custom kind whose objects mostly obey a schema."""

    def make(objects: Objects) -> Untyped:
        maker = Maker(objects.random)
        return {"spec": maker.value(schema["properties"]["spec"], 0, wild=objects.one(0.0, 0.02, 0.08))}

    def status(objects: Objects) -> Any:
        return {**objects.maybe(phase=lambda: objects.one("a", "b", 1), odd=lambda: 1)}

    fields = ("spec.alpha=a",)
    return Kind(group, kind, plural, make, custom=True, status=status, fields=fields, schema=schema)
