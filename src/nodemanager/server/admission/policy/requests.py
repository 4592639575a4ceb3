"""A write as admission policies see it: what it is about, its labels, its `request`, its objects."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from nodemanager.kube.admission.constraints import AdmissionTarget, Labels, as_version
from nodemanager.kube.admission.policies import Inputs
from nodemanager.kube.cel.lib.authz import AuthorizerValue
from nodemanager.kube.objects import Untyped
from nodemanager.kube.rbac.identity import Attributes
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.hub import AdmissionRequest, Hub
from nodemanager.server.kinds.builtin_kinds import NAMESPACES
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored
from nodemanager.store.base import StoreRecord

_HIDDEN = ("managedFields", "ownerReferences")


class PolicyRequest:
    """One change, with everything computed once and only when a policy asks for it."""

    def __init__(self, hub: Hub, change: AdmissionRequest) -> None:
        self._hub = hub
        self.change = change
        kind = change.kind
        is_namespace = kind is NAMESPACES
        self.target = AdmissionTarget(
            change.verb.upper(),
            kind.group,
            kind.version,
            kind.plural,
            change.subresource,
            change.name if is_namespace else change.namespace,
            # A request to delete a collection names no object.
            "" if change.asked == "deletecollection" else change.name,
        )

    def equivalents(self) -> list[AdmissionTarget]:
        """Return the same resource in other versions, and events in their other group."""
        return self._equivalents

    @cached_property
    def _equivalents(self) -> list[AdmissionTarget]:
        kind = self.change.kind
        others = (other for other in self._hub.catalogue if other.prefix() == kind.prefix())
        return [
            as_version(self.target, other.group, other.version, other.plural)
            for other in others
            if other is not kind
        ]

    def labels(self) -> Labels:
        """Return what selectors look at."""
        return self._labels

    @cached_property
    def _labels(self) -> Labels:
        change = self.change
        namespace = self._namespace
        if change.kind is NAMESPACES and not change.subresource and change.new is not None:
            namespace = change.new
        return Labels(_labels(namespace), _labels(change.new), _labels(change.old))

    @cached_property
    def namespace_object(self) -> Untyped | None:
        """The namespace as expressions see it; None for what is in none."""
        namespace = None if self.target.is_namespace else self._namespace
        if namespace is None:
            return None
        meta = {key: value for key, value in namespace["metadata"].items() if key not in _HIDDEN}
        return {
            "metadata": meta,
            "spec": namespace.get("spec") or {},
            "status": namespace.get("status") or {},
        }

    @cached_property
    def _namespace(self) -> Untyped | None:
        record = self._hub.store.get(NAMESPACES.key("", self.target.namespace))
        return None if record is None or not self.target.namespace else stored.load(NAMESPACES, record)

    def request(self, matched: AdmissionTarget) -> Untyped:
        """Return the AdmissionRequest; `matched` is the target as the policy names it."""
        change, target = self.change, self.target
        kind = change.object_kind or change.kind
        shown = self._kind_of(matched) if matched is not target else kind
        request: Untyped = {
            "kind": _gvk(shown),
            "resource": _gvr(matched),
            "requestKind": _gvk(kind),
            "requestResource": _gvr(target),
            "operation": target.operation,
            "userInfo": change.user.info(),
            "dryRun": change.dry_run,
            "options": change.options,
        }
        optional = {
            "subResource": target.subresource,
            "requestSubResource": target.subresource,
            "name": target.name,
            "namespace": target.namespace,
        }
        return request | {key: value for key, value in optional.items() if value}

    def objects(self, matched: AdmissionTarget) -> tuple[Untyped | None, Untyped | None]:
        """Return the new and the old object, in the version that the policy names."""
        change = self.change
        if matched is self.target:
            return change.new, change.old
        kind = self._kind_of(matched)
        return _converted(change.new, change.kind, kind), _converted(change.old, change.kind, kind)

    def inputs(
        self, matched: AdmissionTarget, authorizer: Authorizer, param: Untyped | None = None
    ) -> Inputs:
        """Return what the expressions of a policy see."""
        target = self.target
        about = Attributes(
            "", target.group, "*", target.resource, target.subresource, target.namespace, target.name
        )
        asked = AuthorizerValue(self.change.user, authorizer.decide, about)
        new, old = self.objects(matched)
        return Inputs(self.request(matched), new, old, self.namespace_object, param, asked)

    def _kind_of(self, target: AdmissionTarget) -> ServedKind:
        kind = self._hub.catalogue.find(target.group, target.version, target.resource)
        return kind or self.change.kind


def _labels(obj: Untyped | None) -> dict[str, str] | None:
    return None if obj is None else (obj.get("metadata") or {}).get("labels") or {}


def _gvk(kind: ServedKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _gvr(target: AdmissionTarget) -> dict[str, str]:
    return {"group": target.group, "version": target.version, "resource": target.resource}


def _converted(obj: Untyped | None, kind: ServedKind, other: ServedKind) -> Untyped | None:
    """Return an object in another version: as if it had been stored, and read there."""
    if obj is None:
        return None
    revision: Any = obj["metadata"].get("resourceVersion", 0)
    shown = stored.load(other, StoreRecord("", stored.dump(kind, obj), 0, int(revision or 0)))
    if not revision:
        del shown["metadata"]["resourceVersion"]
    return shown
