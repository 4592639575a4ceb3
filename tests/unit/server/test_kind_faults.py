"""What single built-in kinds refuse; the words are compared with kube-apiserver elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.server.kinds.kind_faults import CHECKS

ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}


def bound(**fields: Any) -> dict[str, Any]:
    return {"kind": "ClusterRoleBinding", "roleRef": ROLE, **fields}


@pytest.mark.parametrize(
    ("plural", "obj", "fields"),
    [
        ("leases", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
         ["spec.leaseDurationSeconds", "spec.leaseTransitions"]),
        ("leases", {"spec": {"leaseDurationSeconds": 15}}, []),
        ("poddisruptionbudgets", {"spec": {"minAvailable": "101%"}}, ["spec.minAvailable"]),
        ("poddisruptionbudgets", {"spec": {"maxUnavailable": "x"}}, ["spec.maxUnavailable"]),
        ("poddisruptionbudgets", {"spec": {"minAvailable": 0, "maxUnavailable": "5%"}}, ["spec"]),
        ("clusterrolebindings", bound(), []),
        ("clusterrolebindings", bound(roleRef={"kind": "Role"}),
         ["roleRef.apiGroup", "roleRef.kind", "roleRef.name"]),
        ("clusterrolebindings", bound(subjects=[{"kind": "ServiceAccount", "name": "s"}]),
         ["subjects[0].namespace"]),
        ("clusterroles", {"aggregationRule": {}}, ["aggregationRule.clusterRoleSelectors"]),
        ("secrets", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, ["data[tls.key]"]),
        ("secrets", {"type": "kubernetes.io/basic-auth", "data": {"password": ""}}, []),
        ("nodes", {"spec": {"taints": [{"key": "", "effect": "Odd"}]}},
         ["metadata.taints[0].key", "metadata.taints[0].key", "metadata.taints[0].effect"]),
        ("pods", {"spec": {}}, ["spec.containers"]),
        ("pods", {"spec": {"containers": [{"name": "c"}]}}, ["spec.containers[0].image"]),
        ("events", {"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}},
         ["involvedObject.namespace"]),
    ],
)  # fmt: skip
def test_faults_are_told_by_field(plural: str, obj: dict[str, Any], fields: list[str]) -> None:
    assert [cause.field for cause in CHECKS[plural](obj, None)] == fields


def test_some_things_never_change() -> None:
    node = {"spec": {"providerID": "one"}}
    assert CHECKS["nodes"]({"spec": {"providerID": "two"}}, node)[0].field == "spec.providerID"
    assert CHECKS["nodes"](node, {"spec": {}}) == []
    other = bound(roleRef={**ROLE, "name": "other"})
    assert "cannot change roleRef" in CHECKS["clusterrolebindings"](other, bound())[0].message
