"""What an embedded API has from its first second: default roles, our kinds, our namespace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import msgspec

from nodemanager.api import crds as our_crds
from nodemanager.api.rights import host_policy
from nodemanager.kube.objects import Untyped
from nodemanager.kube.rbac import default_roles
from nodemanager.server.http import negotiation
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.hub import Call, Hub
from nodemanager.server.kinds.builtin_kinds import CRDS, POLICIES, POLICY_BINDINGS
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored, write
from nodemanager.server.verbs.internal_requests import SELF

_RBAC = ("rbac.authorization.k8s.io", "v1")


async def ensure_defaults(hub: Hub) -> None:
    """Create what is missing; what people changed of the default roles stays as it is."""
    hub = dataclasses.replace(hub, validation=())  # no policy may keep the server from starting
    for plural, objects in (
        ("clusterroles", default_roles.cluster_roles()),
        ("clusterrolebindings", default_roles.cluster_role_bindings()),
    ):
        kind = hub.catalogue.find(*_RBAC, plural)
        if kind is None:
            raise LookupError(f"cannot serve: the kind {plural} is missing from the table of kinds")
        await _ensure(hub, kind, objects, upgrade=False)
    await _ensure(hub, CRDS, our_crds.all_crds(), upgrade=True)
    policy, binding = host_policy.policies()
    await _ensure(hub, POLICIES, [policy], upgrade=True)
    await _ensure(hub, POLICY_BINDINGS, [binding], upgrade=False)


async def _ensure(hub: Hub, kind: ServedKind, objects: Iterable[dict[str, Any]], *, upgrade: bool) -> None:
    for given in objects:
        obj = {name: value for name, value in given.items() if value is not None}
        record = hub.store.get(kind.key("", obj["metadata"]["name"]))
        if record is None:
            await write.create(hub, _call(kind, "create", "", obj))
        elif upgrade:
            present = stored.load(kind, record)
            newer = {**present, "spec": {**present["spec"], **obj["spec"]}}
            if newer != present:
                await write.update(hub, _call(kind, "update", obj["metadata"]["name"], newer))


def _call(kind: ServedKind, verb: str, name: str, obj: Untyped) -> Call:
    info = RequestInfo(verb, "", kind.group, kind.version, "", kind.plural, name)
    form = negotiation.choose("application/json")
    return Call(info, kind, {}, SELF, form, msgspec.json.encode(obj), "application/json", "nodemanager")
