"""How the API addresses a kind of which we only know the name."""

from __future__ import annotations

import msgspec

from nodemanager.client.calls import Call
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped


class _Found(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _Kinds(msgspec.Struct):
    resources: list[_Found] = []


async def find(client: Client, api_version: str, kind: str) -> Resource[Untyped]:
    """Return a kind as the API has it; raise NotFound if it has none of that name."""
    group, _, version = api_version.rpartition("/")
    what = f"look up kind {kind} of {api_version}"
    path = f"/apis/{api_version}" if group else f"/api/{version}"
    try:
        found = msgspec.json.decode(await client.send(Call("GET", path, what, {})), type=_Kinds)
    except (*errors.UNREADABLE, msgspec.ValidationError) as error:
        raise errors.ProtocolError(f"cannot {what}: the answer is no list of kinds") from error
    for one in found.resources:
        if one.kind == kind and "/" not in one.name:
            return Resource(group, version, kind, one.name, dict, one.namespaced)
    raise errors.NotFound(f"cannot {what}: the API has none")
