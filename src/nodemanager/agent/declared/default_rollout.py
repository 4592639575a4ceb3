"""Whether the namespace has a default that stages changes; the API is asked when it matters."""

from __future__ import annotations

from nodemanager.api.common import rolloutpolicy
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES
from nodemanager.client import discovery
from nodemanager.client.verbs import Client
from nodemanager.kube import errors


async def is_staged(client: Client, namespace: str) -> bool:
    """Ask the API whether the default applies now; raise KubeError if that fails."""
    try:
        found = await client.get(ROLLOUT_POLICIES, DEFAULT, namespace)
    except errors.NotFound:
        return False
    except errors.Forbidden:
        if await _is_served(client):
            raise
        return False  # definitions and rights are of a version without this kind
    return rolloutpolicy.in_force(found) is not None


async def _is_served(client: Client) -> bool:
    try:
        await discovery.find(client, ROLLOUT_POLICIES.api_version, ROLLOUT_POLICIES.kind)
    except errors.NotFound:
        return False
    return True
