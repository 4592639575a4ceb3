"""What an embedded API has from its first second: Kubernetes' default roles, and what it was given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from nodemanager.kube.objects import Untyped
from nodemanager.kube.rbac import default_roles
from nodemanager.server.http import negotiation
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.hub import ApiCall, Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored, write
from nodemanager.server.verbs.internal_requests import SELF


@dataclass(frozen=True, slots=True)
class Preset:
    """An object outside of namespaces that is there before anybody asks."""

    obj: dict[str, Any]
    is_kept_current: bool = True
    """Whether its spec becomes ours again at every start; otherwise it stays as people have changed it."""


async def ensure_defaults(hub: Hub, presets: Iterable[Preset] = ()) -> None:
    """Create what is missing, and bring up to date what is kept current."""
    hub = dataclasses.replace(hub, validation=())  # no policy may keep the server from starting
    for role in (*default_roles.cluster_roles(), *default_roles.cluster_role_bindings()):
        await _ensure(hub, Preset(role, is_kept_current=False))
    for preset in presets:
        await _ensure(hub, preset)


async def _ensure(hub: Hub, preset: Preset) -> None:
    obj = {name: value for name, value in preset.obj.items() if value is not None}
    kind = hub.catalogue.named(obj["apiVersion"], obj["kind"])
    if kind is None:
        raise LookupError(f"cannot serve: the kind {obj['kind']} is missing from the table of kinds")
    record = hub.store.get(kind.key("", obj["metadata"]["name"]))
    if record is None:
        await write.create(hub, _call(kind, "create", "", obj))
    elif preset.is_kept_current:
        present = stored.load(kind, record)
        newer = {**present, "spec": {**present["spec"], **obj["spec"]}}
        if newer != present:
            await write.update(hub, _call(kind, "update", obj["metadata"]["name"], newer))


def _call(kind: ServedKind, verb: str, name: str, obj: Untyped) -> ApiCall:
    info = RequestInfo(verb, "", kind.group, kind.version, "", kind.plural, name)
    form = negotiation.choose("application/json")
    return ApiCall(info, kind, {}, SELF, form, msgspec.json.encode(obj), "application/json", "nodemanager")
