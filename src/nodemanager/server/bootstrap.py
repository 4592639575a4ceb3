"""The first objects of an embedded API: Kubernetes' default roles, and those that its caller gives."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from nodemanager.kube import errors
from nodemanager.kube.objects import Untyped
from nodemanager.kube.rbac import default_roles
from nodemanager.server.http import negotiation
from nodemanager.server.http.routing import RequestInfo
from nodemanager.server.hub import ApiCall, Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored, write
from nodemanager.server.verbs.internal_requests import SELF

log = logging.getLogger(__name__)


def with_our_spec(ours: Untyped, present: Untyped) -> Untyped:
    """Return an object with what our spec says."""
    return {**present, "spec": {**present["spec"], **ours["spec"]}}


def as_it_is(_ours: Untyped, present: Untyped) -> Untyped:
    """Return an object as people have changed it."""
    return present


@dataclass(frozen=True, slots=True)
class Preset:
    """An object that exists before the first request; with a namespace, only if that may contain it."""

    obj: dict[str, Any]
    renewed: Callable[[Untyped, Untyped], Untyped] = with_our_spec
    """Given ours and what is there, returns what that becomes at every start."""


async def ensure_defaults(hub: Hub, presets: Iterable[Preset] = ()) -> None:
    """Create what is missing, and bring up to date what is kept current."""
    hub = dataclasses.replace(hub, mutation=(), validation=())  # no policy may keep the server from starting
    for role in (*default_roles.cluster_roles(), *default_roles.cluster_role_bindings()):
        await _ensure(hub, Preset(role, as_it_is))
    for preset in presets:
        try:
            await _ensure(hub, preset)
        except errors.KubeError as error:
            if "namespace" not in preset.obj["metadata"]:
                raise
            log.warning(
                "cannot put %s %s in place: %s", preset.obj["kind"], preset.obj["metadata"]["name"], error
            )


async def _ensure(hub: Hub, preset: Preset) -> None:
    obj = {name: value for name, value in preset.obj.items() if value is not None}
    kind = hub.catalogue.named(obj["apiVersion"], obj["kind"])
    if kind is None:
        raise LookupError(f"cannot serve: the kind {obj['kind']} is missing from the table of kinds")
    record = hub.store.get(kind.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
    if record is None:
        steps = write.DECODED if kind.custom else write.UNCHECKED  # a definition may not be ours any more
        await write.create(hub, _call(kind, "create", "", obj), steps)
        return
    present = stored.load(kind, record)
    newer = preset.renewed(obj, present)
    if newer != present:
        await write.update(hub, _call(kind, "update", obj["metadata"]["name"], newer))


def _call(kind: ServedKind, verb: str, name: str, obj: Untyped) -> ApiCall:
    info = RequestInfo(
        verb, "", kind.group, kind.version, obj["metadata"].get("namespace", ""), kind.plural, name
    )
    form = negotiation.choose("application/json")
    return ApiCall(info, kind, {}, SELF, form, msgspec.json.encode(obj), "application/json", "nodemanager")
