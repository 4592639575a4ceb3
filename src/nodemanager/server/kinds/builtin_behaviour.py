"""What single kinds do differently when they are written: defaults, checks and consequences."""

from __future__ import annotations

import base64
from collections.abc import Callable

from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Untyped
from nodemanager.server.admission import mutation_faults
from nodemanager.server.admission.policy import faults as policy_faults
from nodemanager.server.hub import ApiCall, Hub
from nodemanager.server.kinds import crds, kind_faults, namespaces
from nodemanager.server.kinds.builtin_kinds import CRDS, NAMESPACES
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import stored
from nodemanager.store.base import StoreRecord

_RBAC = "rbac.authorization.k8s.io"


def has_defaults(kind: ServedKind) -> bool:
    """Tell whether a built-in kind has defaults at all."""
    return not kind.custom and kind.plural in _FILL_IN


def fill_in(kind: ServedKind, obj: Untyped) -> None:
    """Fill in the defaults of a built-in kind; the writer of the object owns them."""
    if has_defaults(kind):
        _FILL_IN[kind.plural](obj)


def prepare(hub: Hub, kind: ServedKind, obj: Untyped, old: Untyped | None) -> None:
    """Set fields that the server alone decides about: each as a whole, as what is in it may be shared."""
    if kind.custom:
        return
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
    check = _CHECKS.get(kind.plural)
    return check(obj, old) if check is not None else []


def is_finished(kind: ServedKind, obj: Untyped) -> bool:
    """Tell whether an object is being deleted and nothing holds it any more."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return kind.plural != "namespaces" or kind.custom or not (obj.get("spec") or {}).get("finalizers")


def after_write(hub: Hub, kind: ServedKind, record: StoreRecord) -> None:
    """Act on what was just stored."""
    if kind is CRDS or kind is NAMESPACES:
        obj = stored.load(kind, record)
        if kind is CRDS:
            crds.serve(hub.catalogue, obj)
        if obj["metadata"].get("deletionTimestamp"):
            hub.ending.add(record.key)
    if hub.ending:
        hub.swept.set()


def after_delete(hub: Hub, kind: ServedKind, record: StoreRecord) -> None:
    """Act on what was just removed."""
    if kind is CRDS:
        hub.catalogue.forget(stored.load(kind, record)["metadata"]["name"])
    hub.ending.discard(record.key)
    if hub.ending:
        hub.swept.set()


def check_namespace(hub: Hub, call: ApiCall, name: str) -> None:
    """Refuse a new object whose namespace is missing or being deleted."""
    if call.namespace:
        namespaces.check(hub, call.kind, call.namespace, name)


def _named_label(obj: Untyped) -> None:
    meta = obj["metadata"]
    if name := meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": name}


def _namespace(obj: Untyped, old: Untyped | None) -> None:
    _named_label(obj)
    if old is not None:
        finalizers = (old.get("spec") or {}).get("finalizers")
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": finalizers}
    else:
        obj["spec"] = {**(obj.get("spec") or {}), "finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}


def _secret(obj: Untyped) -> None:
    texts = obj.pop("stringData", None)
    if texts:
        data = {key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **data}
    obj.setdefault("type", "Opaque")


def _pod(obj: Untyped) -> None:
    spec = obj.setdefault("spec", {}) or {}
    for field, value in _POD_DEFAULTS.items():
        spec.setdefault(field, value)
    spec.setdefault("securityContext", {})
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        if isinstance(container, dict):
            image = str(container.get("image", "")).rpartition("/")[2]
            latest = ":" not in image or image.endswith(":latest")
            container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
            for field, value in _CONTAINER_DEFAULTS.items():
                container.setdefault(field, value)
            for port in container.get("ports") or []:
                port.setdefault("protocol", "TCP")
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]


def _pod_status(obj: Untyped, old: Untyped | None) -> None:
    if old is None:
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}


_POD_DEFAULTS = {
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler", "enableServiceLinks": True,
}  # fmt: skip
_CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}  # fmt: skip


def _node(obj: Untyped) -> None:
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _account(obj: Untyped, _old: Untyped | None) -> None:
    """Keep only the names of the Secrets of an account, as Kubernetes does."""
    if "secrets" in obj:
        obj["secrets"] = [
            {key: value for key, value in secret.items() if key == "name"} for secret in obj["secrets"]
        ]


def _budget(obj: Untyped, old: Untyped | None) -> None:
    if old is None:
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        obj["status"] = dict.fromkeys(counts, 0)


def _policy_status(obj: Untyped, old: Untyped | None) -> None:
    if old is None:  # it is for a controller to write, which is not ours
        obj["status"] = {}


def _binding(obj: Untyped) -> None:
    role = obj.get("roleRef")
    if isinstance(role, dict):
        role.setdefault("apiGroup", _RBAC)
    for subject in obj.get("subjects") or []:
        if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", _RBAC)


_FILL_IN: dict[str, Callable[[Untyped], None]] = {
    "namespaces": _named_label, "nodes": _node, "secrets": _secret, "pods": _pod, "rolebindings": _binding,
    "clusterrolebindings": _binding, "validatingadmissionpolicies": policy_faults.fill_in_policy,
    "validatingadmissionpolicybindings": policy_faults.fill_in_binding,
    "mutatingadmissionpolicies": policy_faults.fill_in_policy,
    "mutatingadmissionpolicybindings": policy_faults.fill_in_binding,
}  # fmt: skip
_PREPARE: dict[str, Callable[[Untyped, Untyped | None], None]] = {
    "namespaces": _namespace, "pods": _pod_status, "poddisruptionbudgets": _budget,
    "serviceaccounts": _account, "validatingadmissionpolicies": _policy_status,
}  # fmt: skip
_CHECKS: dict[str, Callable[[Untyped, Untyped | None], list[Cause]]] = {
    **kind_faults.CHECKS,
    "validatingadmissionpolicies": policy_faults.policy_faults,
    "validatingadmissionpolicybindings": policy_faults.binding_faults,
    "mutatingadmissionpolicies": mutation_faults.policy_faults,
    "mutatingadmissionpolicybindings": mutation_faults.binding_faults,
}  # fmt: skip
