"""ServiceAccounts that somebody else made, and what they may do."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from nodemanager.client.auth import host_kubeconfig, kubeconfig
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import Combined, Impersonation
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import manifests
from support import kubeconfigs
from support.agent_process import Api
from support.clients import connected
from support.either import Place

RBAC = "rbac.authorization.k8s.io"


def rule(group: str, resources: Sequence[str], *verbs: str) -> dict[str, Any]:
    """Return what a Role may say."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def account(name: str, namespace: str, rules: Sequence[dict[str, Any]], where: str = "") -> str:
    """Return an account of a name with rights in its own namespace, or in another."""
    there = where or namespace
    home = {"name": name, "namespace": namespace}
    meta = {"name": f"of-{namespace}-{name}"[:100], "namespace": there}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": meta["name"]}
    return manifests.dump(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": there}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": home},
            {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": list(rules)},
            {
                "apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": reference,
                "subjects": [{"kind": "ServiceAccount", **home}],
            },
        ]
    )  # fmt: skip


@asynccontextmanager
async def acting(place: Place, api: Api, name: str, namespace: str = "") -> AsyncIterator[Client]:
    """Be a ServiceAccount, with a token that an administrator had issued."""
    home = namespace or place.namespace
    issued = await request_token(api.client, name, home, seconds=600)
    admin = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    own = Path(f"{place.kubeconfig}.{home}.{name}")
    own.write_bytes(  # noqa: ASYNC240 - a few bytes
        host_kubeconfig.kubeconfig(admin, "any", home, issued.token)
    )
    async with connected(kubeconfig.load(path=str(own), environ={}, run=runner.run)) as client:
        yield client


def operator_of(config: ClientConfig, namespace: str) -> ClientConfig:
    """Return how to be who has all rights of an administrator, and is the operator to the policies."""
    user = f"system:serviceaccount:{namespace}:nodemanager-operator"
    somebody = Impersonation(user, "", ["system:masters"], {})
    return dataclasses.replace(config, credentials=Combined([config.credentials, somebody]))


def as_operator(place: Place) -> Path:
    """Return a kubeconfig that does the same, for processes."""
    config = yaml.safe_load(place.kubeconfig.read_text())
    somebody = f"system:serviceaccount:{place.namespace}:nodemanager-operator"
    for user in config["users"]:
        user["user"] |= {"as": somebody, "as-groups": ["system:masters"]}
    return Path(kubeconfigs.write(Path(f"{place.kubeconfig}.as-operator"), config))


@asynccontextmanager
async def operating(place: Place | Api) -> AsyncIterator[Client]:
    """Be the operator of a place, as far as policies can tell."""
    admin = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    async with connected(operator_of(admin, place.namespace)) as client:
        yield client
