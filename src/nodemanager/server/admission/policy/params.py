"""The parameters of admission policies: objects of any served kind that a binding refers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodemanager.kube.admission.constraints import read_selector
from nodemanager.kube.objects import Untyped
from nodemanager.kube.selectors import matches
from nodemanager.server.hub import Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored


class ParamError(Exception):
    """A binding whose parameters cannot be used; the text is Kubernetes' own."""


def find_kind(hub: Hub, param_kind: tuple[str, str]) -> ServedKind | None:
    """Return the served kind that a `paramKind` means, or None."""
    api_version, kind = param_kind
    group, _, version = api_version.rpartition("/")
    return next((each for each in hub.catalogue.of_version(group, version) if each.kind == kind), None)


def collect(hub: Hub, kind: ServedKind | None, ref: Mapping[str, Any] | None, namespace: str) -> list[Any]:
    """Return the parameters to evaluate with, one after the other; [None] stands for none at all.

    `namespace` is that of the request. No parameter at all means that nothing is evaluated.
    """
    if kind is None or ref is None:
        return [None]
    place = _place(kind, ref, namespace)
    name = str(ref.get("name") or "")
    found = _named(hub, kind, place, name) if name else _selected(hub, kind, place, ref.get("selector"))
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise ParamError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _place(kind: ServedKind, ref: Mapping[str, Any], namespace: str) -> str:
    wanted = str(ref.get("namespace") or "")
    if not kind.namespaced:
        if wanted:
            raise ParamError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not wanted and not namespace:
        raise ParamError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return wanted or namespace


def _named(hub: Hub, kind: ServedKind, namespace: str, name: str) -> list[Untyped]:
    record = hub.store.get(kind.key(namespace, name))
    return [] if record is None else [stored.load(kind, record)]


def _selected(
    hub: Hub, kind: ServedKind, namespace: str, selector: Mapping[str, Any] | None
) -> list[Untyped]:
    wanted = read_selector(selector)
    objects = (stored.load(kind, record) for record in hub.store.list(kind.prefix(namespace)).records)
    return [obj for obj in objects if matches(wanted, obj["metadata"].get("labels") or {})]
