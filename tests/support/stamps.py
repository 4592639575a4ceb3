"""Ways to write an object with a stamp that somebody made up, and users who try."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from nodemanager.api.audit.actors import REQUESTED_BY
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.client.auth import kubeconfig
from nodemanager.client.auth.credentials import Combined, Impersonation
from nodemanager.client.calls import Call
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube.objects import HasMetadata, Untyped
from support.clients import connected
from support.either import Place

SETS = CONFIG_SETS.untyped()
FORGED = json.dumps({"user": "boss", "groups": ["bosses"], "of": 1, "generation": 2})
NOTED = {REQUESTED_BY: FORGED}

Forgery = Callable[[Client, Untyped, int], Awaitable[object]]
"""Changes a ConfigSet to a priority, with a stamp that is not of the user."""


def unstamped(found: HasMetadata) -> dict[str, str]:
    """Return the annotations that somebody wrote, without the stamp that says who it was."""
    return {name: text for name, text in found.metadata.annotations.items() if name != REQUESTED_BY}


@asynccontextmanager
async def being(place: Place, user: str, groups: Sequence[str] = ()) -> AsyncIterator[Client]:
    """Be a user of these groups, who may do everything."""
    admin = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    somebody = Impersonation(user, "", [*groups, "system:masters"], {})
    config = dataclasses.replace(admin, credentials=Combined([admin.credentials, somebody]))
    async with connected(config) as client:
        yield client


async def send(
    client: Client, method: str, obj: Untyped, body: Any, kind: str, *, query: Any = None, part: str = ""
) -> Untyped:
    """Send a request about an object, and return what came of it."""
    meta = obj["metadata"]
    path = SETS.path(meta["namespace"], meta["name"], part)
    data = msgspec.json.encode(body)
    answer = await client.send(Call(method, path, "try", query or {}, data, kind))
    return dict(msgspec.json.decode(answer))


def spoken(obj: Untyped, priority: int) -> Untyped:
    """Return an object that somebody made up from another, to be written as a whole."""
    meta = {**obj["metadata"], "annotations": NOTED}
    return {**obj, "metadata": meta, "spec": {**obj["spec"], "priority": priority}}


async def put(client: Client, obj: Untyped, priority: int) -> object:
    return await send(client, "PUT", obj, spoken(obj, priority), "application/json")


async def merge(client: Client, obj: Untyped, priority: int) -> object:
    body = {"metadata": {"annotations": NOTED}, "spec": {"priority": priority}}
    return await send(client, "PATCH", obj, body, "application/merge-patch+json")


async def json_patch(client: Client, obj: Untyped, priority: int) -> object:
    body = [
        {"op": "add", "path": "/metadata/annotations", "value": NOTED},
        {"op": "add", "path": "/spec/priority", "value": priority},
    ]
    return await send(client, "PATCH", obj, body, "application/json-patch+json")


async def apply(client: Client, obj: Untyped, priority: int) -> object:
    body = {
        "apiVersion": SETS.api_version, "kind": SETS.kind,
        "metadata": {"name": obj["metadata"]["name"], "annotations": NOTED},
        "spec": {"nodeSelector": {}, "priority": priority},
    }  # fmt: skip
    query = {"fieldManager": "forger", "force": "true"}
    return await send(client, "PATCH", obj, body, "application/apply-patch+yaml", query=query)


async def status(client: Client, obj: Untyped, priority: int) -> object:
    body = {"metadata": {"annotations": NOTED}, "spec": {"priority": priority}, "status": {}}
    return await send(client, "PATCH", obj, body, "application/merge-patch+json", part="status")


FORGERIES: dict[str, Forgery] = {
    "put": put, "merge-patch": merge, "json-patch": json_patch, "forced-apply": apply,
}  # fmt: skip
