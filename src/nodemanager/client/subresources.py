"""Calls that are not about an object but about doing something with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from nodemanager.client.patches import MergePatch, difference
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors
from nodemanager.kube.objects import HasMetadata, Resource

T = TypeVar("T", bound=HasMetadata)


class IssuedToken(NamedTuple):
    """A ServiceAccount token and when it ends (RFC 3339)."""

    token: str
    expires: str

    def __repr__(self) -> str:
        return f"IssuedToken(expires={self.expires!r})"


async def request_token(
    client: Client, account: str, namespace: str, *, seconds: int, audiences: Sequence[str] = ()
) -> IssuedToken:
    """Have the API issue a token for a ServiceAccount; the server may shorten its life."""
    spec: dict[str, Any] = {"expirationSeconds": seconds}
    if audiences:
        spec["audiences"] = list(audiences)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await client.create_subresource(core.SERVICE_ACCOUNTS, account, namespace, "token", body)
    status = answer.get("status", {})
    try:
        return IssuedToken(status["token"], status["expirationTimestamp"])
    except KeyError as error:
        raise errors.ProtocolError(f"cannot use the TokenRequest answer: it has no {error}") from error


async def evict(
    client: Client, pod: str, namespace: str, *, grace_period: int | None = None, dry_run: bool = False
) -> None:
    """Evict a pod; `TooManyRequests` means that a disruption budget says not now.

    The caller that drains waits for a budget, so the request itself is not repeated.
    """
    body: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    options: dict[str, Any] = {}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    if dry_run:
        options["dryRun"] = ["All"]
    if options:
        body["deleteOptions"] = options
    await client.create_subresource(core.PODS, pod, namespace, "eviction", body, retry=False)


async def write_status(client: Client, resource: Resource[T], obj: T, old: Any, wanted: Any) -> bool:
    """Write what is new in the status of an object as it was read; return whether that changed the object.

    Lists are written whole, so a foreign write meanwhile is a Conflict. An object that was deleted has
    no status any more. Fields that a CRD in the cluster does not know yet are dropped by the API.
    """
    patch = difference(msgspec.to_builtins(old), msgspec.to_builtins(wanted))
    if not patch:
        return False
    meta = obj.metadata
    body = MergePatch({"metadata": {"resourceVersion": meta.resource_version}, "status": patch})
    try:
        written = await client.patch(resource, meta.name, meta.namespace, body, subresource="status")
    except errors.NotFound:
        return False
    return written.metadata.resource_version != meta.resource_version
