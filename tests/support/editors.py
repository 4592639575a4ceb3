"""People other than the administrator, who may write maintenances and ConfigSets, and approve them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.kube import core
from support import whole_server
from support.clients import Tokens, connected
from support.either import Place


@contextlib.asynccontextmanager
async def editor(place: Place, name: str) -> AsyncIterator[Client]:
    """Be somebody; to the API, system:serviceaccount:NAMESPACE:NAME."""
    config, namespace = whole_server.load(place.kubeconfig), place.namespace
    rule = {
        "apiGroups": ["maintenance.nodemanager", "common.nodemanager"],
        "resources": ["*"],
        "verbs": ["*"],
    }
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    meta = {"metadata": {"name": name}}
    async with connected(config) as admin:
        await admin.create(core.SERVICE_ACCOUNTS.untyped(), meta, namespace)
        await admin.create(core.ROLES, {**meta, "rules": [rule]}, namespace)
        await admin.create(core.ROLE_BINDINGS, {**meta, "subjects": [subject], "roleRef": role}, namespace)
        issued = await request_token(admin, name, namespace, seconds=3600)
    own = ClientConfig(config.server, ca=config.ca, credentials=Tokens(issued.token))
    async with connected(own) as client:
        yield client
