"""Which requests an audit policy means; the rules are Kubernetes'."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nodemanager.cli.settings.audit_options import DEFAULT
from nodemanager.kube import errors
from nodemanager.kube.rbac.identity import AUTHENTICATED, User
from nodemanager.server.audit import policy
from nodemanager.server.audit.policy import AuditLevel
from nodemanager.server.http import routing

ALICE = User("alice", ("people", AUTHENTICATED))
NOBODY = User("system:anonymous", ("system:unauthenticated",))
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [system:kube-proxy]}
- {level: None, nonResourceURLs: [/healthz*, /version]}
- {level: Request, namespaces: [kube-system], resources: [{group: "", resources: [configmaps]}]}
- {level: RequestResponse, resources: [{group: "", resources: [pods, pods/status, "nodes/*"]}]}
- {level: Metadata, verbs: [delete], resources: [{group: apps}]}
- {level: None, resources: [{group: "", resources: [configmaps], resourceNames: [noise]}]}
- {level: None, userGroups: [robots], omitStages: [ResponseComplete]}
- {level: Metadata, resources: [{group: "", resources: ["*"]}]}
"""


def level(read: policy.AuditPolicy, method: str, path: str, user: User = ALICE) -> AuditLevel:
    return read.level(routing.parse(method, path, {}), user)


@pytest.mark.parametrize(
    ("method", "path", "user", "wanted"),
    [
        ("GET", "/api/v1/pods", User("system:kube-proxy"), AuditLevel.NONE),
        ("GET", "/healthz/store", ALICE, AuditLevel.NONE),
        ("GET", "/metrics", ALICE, AuditLevel.NONE),
        ("PUT", "/api/v1/namespaces/kube-system/configmaps/a", ALICE, AuditLevel.REQUEST),
        ("PUT", "/api/v1/namespaces/default/configmaps/a", ALICE, AuditLevel.METADATA),
        ("PUT", "/api/v1/namespaces/default/configmaps/noise", ALICE, AuditLevel.NONE),
        ("PUT", "/api/v1/namespaces/default/pods/a/status", ALICE, AuditLevel.REQUEST_RESPONSE),
        ("POST", "/api/v1/namespaces/default/pods/a/eviction", ALICE, AuditLevel.METADATA),
        ("PATCH", "/api/v1/nodes/a/status", ALICE, AuditLevel.REQUEST_RESPONSE),
        ("PATCH", "/api/v1/nodes/a", ALICE, AuditLevel.METADATA),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments/a", ALICE, AuditLevel.METADATA),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/a", ALICE, AuditLevel.NONE),
        ("GET", "/api/v1/secrets", User("r2", ("robots",)), AuditLevel.NONE),
    ],
)
def test_the_first_rule_that_fits_decides(method: str, path: str, user: User, wanted: AuditLevel) -> None:
    assert level(policy.read(yaml.safe_load(POLICY)), method, path, user) is wanted


@pytest.mark.parametrize(
    ("method", "path", "user", "wanted"),
    [
        ("POST", "/apis/common.nodemanager/v1/namespaces/a/configsets", ALICE, AuditLevel.METADATA),
        ("DELETE", "/apis/common.nodemanager/v1/namespaces/a/configsets", ALICE, AuditLevel.METADATA),
        ("PATCH", "/api/v1/namespaces/a/secrets/b", ALICE, AuditLevel.METADATA),
        ("POST", "/api/v1/namespaces/a/serviceaccounts/b/token", ALICE, AuditLevel.METADATA),
        ("GET", "/apis/common.nodemanager/v1/namespaces/a/configsets/b", ALICE, AuditLevel.NONE),
        ("PATCH", "/apis/common.nodemanager/v1/namespaces/a/managednodes/b/status", ALICE, AuditLevel.NONE),
        ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", ALICE, AuditLevel.NONE),
        ("POST", "/api/v1/namespaces/a/events", ALICE, AuditLevel.NONE),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ALICE, AuditLevel.NONE),
        ("POST", "/apis/common.nodemanager/v1/namespaces/a/configsets", NOBODY, AuditLevel.NONE),
        ("POST", "/somewhere", ALICE, AuditLevel.NONE),
    ],
)
def test_by_default_it_is_told_who_changed_what(
    method: str, path: str, user: User, wanted: AuditLevel
) -> None:
    assert level(DEFAULT, method, path, user) is wanted


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "Secret"}, "apiVersion and kind: 'audit.k8s.io/v1 Secret'"),
        ({"rules": []}, "rules: []: give at least one rule"),
        ({"rules": [{"level": "Loud"}]}, "rules[0].level: 'Loud': one of None, Metadata"),
        ({"rules": [{"level": "None", "user": "a"}]}, "rules[0].user: 'a': this server does not know"),
        ({"rules": [{"level": "None", "users": "a"}]}, "rules[0].users: 'a': a list of texts"),
        ({"omitStages": ["Never"]}, "omitStages: 'Never': one of RequestReceived"),
        ({"rules": [{"level": "None", "resources": [{"resourceNames": ["a"]}]}]}, "say of which resources"),
        ({"rules": [{"level": "None", "resources": [{"group": ""}], "nonResourceURLs": ["/a"]}]},
         "a rule is about one of them"),
        ({"omitManagedFields": True}, "omitManagedFields: True: this server does not know that field"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change: dict[str, Any], why: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        policy.read({**yaml.safe_load(POLICY), **change})
    assert why in str(caught.value)
