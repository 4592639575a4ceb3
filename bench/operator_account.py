"""The account that the operator has in a cluster: nobody else may make tasks, or write the audit log."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

from nodemanager.api.rights import operator_rights
from nodemanager.client.auth import load
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly
from nodemanager.host.process import runner
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Resource

NAMESPACE = "nodemanager"
TOKEN_SECONDS = 7200
NAMESPACES: Resource[Any] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)


async def kubeconfig(admin: Path) -> Path:
    """Make the account with its rights; return a kubeconfig of it."""
    config = load.discover(path=str(admin), environ={}, run=runner.run)
    client = Client(HttpTransport(config))
    kinds: dict[str, Resource[Any]] = {
        "Namespace": NAMESPACES, "ServiceAccount": core.SERVICE_ACCOUNTS, "Role": core.ROLES,
        "RoleBinding": core.ROLE_BINDINGS, "ClusterRole": core.CLUSTER_ROLES,
        "ClusterRoleBinding": core.CLUSTER_ROLE_BINDINGS,
    }  # fmt: skip
    try:
        for one in assembly.manifests(NAMESPACE):
            with contextlib.suppress(errors.AlreadyExists):
                await client.create(kinds[one["kind"]].untyped(), one, one["metadata"].get("namespace", ""))
        issued = await request_token(client, operator_rights.NAME, NAMESPACE, seconds=TOKEN_SECONDS)
    finally:
        await client.close()
    authority = base64.b64encode(config.ca or b"").decode()
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "operator",
        "contexts": [
            {"name": "operator", "context": {"cluster": "bench", "user": "operator", "namespace": NAMESPACE}}
        ],
        "clusters": [
            {"name": "bench", "cluster": {"server": config.server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "operator", "user": {"token": issued.token}}],
    }
    path = admin.parent / "operator.kubeconfig"
    path.write_text(json.dumps(written))
    path.chmod(0o600)
    return path
