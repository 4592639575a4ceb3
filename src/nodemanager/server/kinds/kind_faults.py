"""What is wrong with objects of single built-in kinds, beyond their types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nodemanager.kube.errors import Cause
from nodemanager.kube.objects import Untyped
from nodemanager.server.http.refusals import value_forbidden, value_invalid, value_required, value_unsupported
from nodemanager.server.kinds.event_faults import event_faults
from nodemanager.server.verbs.metadata import key_faults, name_faults

_RBAC = "rbac.authorization.k8s.io"
_SECRET_MAX = 2**20
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)
_NEEDED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


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
    data, sort = obj.get("data") or {}, obj.get("type", "")
    needed = [key for key in _NEEDED_KEYS.get(sort, ()) if key not in data]
    if sort == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        needed = ["username", "password"]
    return found + [value_required(f"data[{key}]") for key in needed]


def _role_faults(obj: Untyped, _old: Untyped | None) -> list[Cause]:
    found = []
    gathered = obj.get("aggregationRule")
    if gathered is not None and not gathered.get("clusterRoleSelectors"):
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        found.append(value_required("aggregationRule.clusterRoleSelectors", why))
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
    role = obj.get("roleRef") or {}
    found = []
    if role.get("apiGroup") != _RBAC:
        found.append(value_unsupported("roleRef.apiGroup", role.get("apiGroup", ""), (_RBAC,)))
    kinds = ("Role", "ClusterRole") if obj.get("kind") == "RoleBinding" else ("ClusterRole",)
    if role.get("kind") not in kinds:
        found.append(value_unsupported("roleRef.kind", role.get("kind", ""), kinds))
    name = role.get("name", "")
    if not name:
        found.append(value_required("roleRef.name"))
    found += [value_invalid("roleRef.name", name, why) for why in name_faults(name, "path") if name]
    for index, subject in enumerate(obj.get("subjects") or []):
        found += _subject_faults(subject, f"subjects[{index}]", namespaced=obj.get("kind") == "RoleBinding")
    if old is not None and role != old.get("roleRef"):
        shown = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": name}
        found.append(value_invalid("roleRef", shown, "cannot change roleRef"))
    return found


def _subject_faults(subject: Untyped, at: str, *, namespaced: bool) -> list[Cause]:
    name, kind, group = (subject.get(field, "") for field in ("name", "kind", "apiGroup"))
    found = [] if name else [value_required(f"{at}.name")]
    if kind == "ServiceAccount":
        found += [value_invalid(f"{at}.name", name, why) for why in name_faults(name, "subdomain") if name]
        if group:
            found.append(value_unsupported(f"{at}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(value_required(f"{at}.namespace"))
    elif kind in ("User", "Group"):
        if group != _RBAC:
            found.append(value_unsupported(f"{at}.apiGroup", group, (_RBAC,)))
    else:
        found.append(value_unsupported(f"{at}.kind", kind, ("ServiceAccount", "User", "Group")))
    return found


def _lease_faults(obj: Untyped, _old: Untyped | None) -> list[Cause]:
    spec, found = obj.get("spec") or {}, []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        found.append(value_invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        why = "must be greater than or equal to 0"
        found.append(value_invalid("spec.leaseTransitions", transitions, why))
    return found


def _budget_faults(obj: Untyped, _old: Untyped | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = []
    for field in ("minAvailable", "maxUnavailable"):
        found += _share_faults(f"spec.{field}", spec.get(field))
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        why = "minAvailable and maxUnavailable cannot be both set"
        found.append(value_invalid("spec", _shown_budget(spec), why))
    return found


def _shown_budget(spec: Untyped) -> Untyped:
    """Return a budget as Kubernetes quotes its own structure."""
    names = ("MinAvailable", "Selector", "MaxUnavailable", "UnhealthyPodEvictionPolicy")
    shown = {name: spec.get(name[0].lower() + name[1:]) for name in names}
    if shown["Selector"] and shown["Selector"].get("matchLabels"):
        labels = dict(sorted(shown["Selector"]["matchLabels"].items()))
        shown["Selector"] = {**shown["Selector"], "matchLabels": labels}
    return shown


def _share_faults(path: str, share: Any) -> list[Cause]:
    if isinstance(share, str):
        if not _PERCENT.fullmatch(share):
            return [value_invalid(path, share, _PERCENT_RULE)]
        return [value_invalid(path, share, "must not be greater than 100%")] if int(share[:-1]) > 100 else []
    if share is not None and share < 0:
        return [value_invalid(path, share, "must be greater than or equal to 0")]
    return []


def _node_faults(obj: Untyped, old: Untyped | None) -> list[Cause]:
    found = []
    was = "" if old is None else (old.get("spec") or {}).get("providerID", "")
    if was and was != (obj.get("spec") or {}).get("providerID", ""):
        why = 'node updates may not change providerID except from "" to valid'
        found.append(value_forbidden("spec.providerID", why))
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        at = f"metadata.taints[{index}]"  # so Kubernetes calls it
        key = taint.get("key", "")
        found += [value_invalid(f"{at}.key", key, why) for why in key_faults(key)]
        if not taint.get("effect"):
            found.append(value_required(f"{at}.effect"))
        elif taint["effect"] not in _EFFECTS:
            found.append(value_unsupported(f"{at}.effect", taint["effect"], _EFFECTS))
    return found


def _pod_faults(obj: Untyped, _old: Untyped | None) -> list[Cause]:
    containers = (obj.get("spec") or {}).get("containers") or []
    found = [] if containers else [value_required("spec.containers")]
    for index, container in enumerate(containers):
        missing = [field for field in ("name", "image") if not container.get(field)]
        found += [value_required(f"spec.containers[{index}].{field}") for field in missing]
    return found


CHECKS: dict[str, Callable[[Untyped, Untyped | None], list[Cause]]] = {
    "configmaps": _data_faults, "secrets": _secret_faults, "roles": _role_faults,
    "clusterroles": _role_faults, "rolebindings": _binding_faults, "clusterrolebindings": _binding_faults,
    "leases": _lease_faults, "poddisruptionbudgets": _budget_faults, "nodes": _node_faults,
    "events": event_faults, "pods": _pod_faults,
}  # fmt: skip
"""The checks by resource; each is given the object and what was there before."""
