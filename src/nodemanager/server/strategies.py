"""What single kinds do differently when they are written: defaults, checks and consequences."""

from __future__ import annotations

import base64
from collections.abc import Callable

from nodemanager.api.errors import Cause
from nodemanager.api.objects import Untyped
from nodemanager.server import crds, micro_times, namespaces, policy_faults, stored
from nodemanager.server.builtin_kinds import CRDS, NAMESPACES
from nodemanager.server.hub import Call, Hub
from nodemanager.server.refusals import value_forbidden, value_invalid, value_required
from nodemanager.server.resources import ServedKind
from nodemanager.store.base import Record

_RBAC = "rbac.authorization.k8s.io"
_SECRET_MAX = 2**20


def prepare(hub: Hub, kind: ServedKind, obj: Untyped, old: Untyped | None) -> None:
    """Complete an object before it is checked."""
    if kind.custom:
        return
    micro_times.normalize(kind, obj)
    if kind.plural == CRDS.plural:
        crds.prepare(hub, obj, old)
    prepared = _PREPARE.get(kind.plural)
    if prepared is not None:
        prepared(obj, old)


def faults(kind: ServedKind, obj: Untyped, old: Untyped | None) -> list[Cause]:
    """Return what is wrong with an object beyond its schema."""
    if kind.custom:
        return []
    if kind.plural == CRDS.plural:
        return crds.faults(obj, old)
    check = _FAULTS.get(kind.plural)
    return check(obj, old) if check is not None else []


def is_finished(kind: ServedKind, obj: Untyped) -> bool:
    """Tell whether an object is being deleted and nothing holds it any more."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return kind.plural != "namespaces" or kind.custom or not (obj.get("spec") or {}).get("finalizers")


def after_write(hub: Hub, kind: ServedKind, record: Record) -> None:
    """Act on what was just stored."""
    if kind is CRDS or kind is NAMESPACES:
        obj = stored.load(kind, record)
        if kind is CRDS:
            crds.serve(hub.catalogue, obj)
        if obj["metadata"].get("deletionTimestamp"):
            hub.ending.add(record.key)
    if hub.ending:
        hub.swept.set()


def after_delete(hub: Hub, kind: ServedKind, record: Record) -> None:
    """Act on what was just removed."""
    if kind is CRDS:
        hub.catalogue.forget(stored.load(kind, record)["metadata"]["name"])
    hub.ending.discard(record.key)
    if hub.ending:
        hub.swept.set()


def check_namespace(hub: Hub, call: Call, name: str, *, creating: bool) -> None:
    """Refuse new objects where there is no namespace, or where it is going away."""
    if creating and call.namespace:
        namespaces.check(hub, call.kind, call.namespace, name)


def _namespace(obj: Untyped, old: Untyped | None) -> None:
    labels = obj["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")
    if old is None:
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}


def _secret(obj: Untyped, _old: Untyped | None) -> None:
    texts = obj.pop("stringData", None)
    if texts:
        data = {key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **data}
    obj.setdefault("type", "Opaque")


def _pod(obj: Untyped, old: Untyped | None) -> None:
    spec = obj.setdefault("spec", {}) or {}
    for field, value in _POD_DEFAULTS.items():
        spec.setdefault(field, value)
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        if isinstance(container, dict):
            image = str(container.get("image", "")).rpartition("/")[2]
            latest = ":" not in image or image.endswith(":latest")
            container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
            for field, value in _CONTAINER_DEFAULTS.items():
                container.setdefault(field, value)
    if old is None:
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}


_POD_DEFAULTS = {
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler", "enableServiceLinks": True,
}  # fmt: skip
_CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}  # fmt: skip


def _budget(obj: Untyped, old: Untyped | None) -> None:
    if old is None:
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        obj["status"] = dict.fromkeys(counts, 0)


def _binding(obj: Untyped, _old: Untyped | None) -> None:
    role = obj.get("roleRef")
    if isinstance(role, dict):
        role.setdefault("apiGroup", _RBAC)
    for subject in obj.get("subjects") or []:
        if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", _RBAC)


_Prepare = Callable[[Untyped, Untyped | None], None]
_PREPARE: dict[str, _Prepare] = {
    "namespaces": _namespace, "secrets": _secret, "pods": _pod, "poddisruptionbudgets": _budget,
    "rolebindings": _binding, "clusterrolebindings": _binding,
    "validatingadmissionpolicies": policy_faults.prepare_policy,
    "validatingadmissionpolicybindings": policy_faults.prepare_binding,
}  # fmt: skip


def _data_faults(obj: Untyped, old: Untyped | None) -> list[Cause]:
    found: list[Cause] = []
    if old is not None and old.get("immutable"):
        changed = [field for field in ("data", "binaryData") if obj.get(field) != old.get(field)]
        changed += [] if obj.get("immutable") else ["immutable"]
        found = [value_forbidden(field, "field is immutable when `immutable` is set") for field in changed]
    return found


def _secret_faults(obj: Untyped, old: Untyped | None) -> list[Cause]:
    found = _data_faults(obj, old)
    size = sum(len(str(value)) * 3 // 4 for value in (obj.get("data") or {}).values())
    if size > _SECRET_MAX:
        text = f"Too long: may not be more than {_SECRET_MAX} bytes"
        found.append(Cause(field="data", reason="FieldValueTooLong", message=text))
    if old is not None and obj.get("type") != old.get("type"):
        found.append(value_invalid("type", obj.get("type"), "field is immutable"))
    return found


def _role_faults(obj: Untyped, _old: Untyped | None) -> list[Cause]:
    found = []
    for index, rule in enumerate(obj.get("rules") or []):
        at = f"rules[{index}]"
        if not rule.get("verbs"):
            found.append(value_required(f"{at}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            continue
        if not rule.get("apiGroups"):
            found.append(
                value_required(f"{at}.apiGroups", "resource rules must supply at least one api group")
            )
        if not rule.get("resources"):
            found.append(
                value_required(f"{at}.resources", "resource rules must supply at least one resource")
            )
    return found


def _binding_faults(obj: Untyped, old: Untyped | None) -> list[Cause]:
    if old is not None and obj.get("roleRef") != old.get("roleRef"):
        return [value_invalid("roleRef", obj.get("roleRef"), "cannot change roleRef")]
    return []


_FAULTS: dict[str, Callable[[Untyped, Untyped | None], list[Cause]]] = {
    "configmaps": _data_faults, "secrets": _secret_faults, "roles": _role_faults,
    "clusterroles": _role_faults, "rolebindings": _binding_faults, "clusterrolebindings": _binding_faults,
    "validatingadmissionpolicies": policy_faults.policy_faults,
    "validatingadmissionpolicybindings": policy_faults.binding_faults,
}  # fmt: skip
