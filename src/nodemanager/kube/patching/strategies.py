"""Which lists of built-in kinds a strategic merge patch merges, and by which key.

Everything that is not named here is merged when it is a map, and replaced when it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.kube import errors


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one field is patched, and the fields inside of it (or inside of its items)."""

    how: str = ""
    """`merge` for lists that merge, `replace` for maps that do not."""
    key: str = ""
    """The field by which items are told apart; empty for lists of scalars."""
    fields: Mapping[str, Strategy] = field(default_factory=dict)

    def of(self, name: str) -> Strategy:
        """Return how a field inside is patched."""
        return self.fields.get(name, _PLAIN)


_PLAIN = Strategy()


def _by(key: str, **fields: Strategy) -> Strategy:
    return Strategy("merge", key, fields)


def _inside(**fields: Strategy) -> Strategy:
    return Strategy(fields=fields)


_METADATA = _inside(ownerReferences=_by("uid"), finalizers=Strategy("merge"))
_CONDITIONS = _inside(conditions=_by("type"))
_CONTAINERS = _by(
    "name",
    ports=_by("containerPort"),
    env=_by("name"),
    volumeMounts=_by("mountPath"),
    volumeDevices=_by("devicePath"),
)
_CONTAINER_STATUSES = _inside(volumeMounts=_by("mountPath"), allocatedResourcesStatus=_by("name"))
_POD_SPEC = _inside(
    volumes=_by("name"),
    initContainers=_CONTAINERS,
    containers=_CONTAINERS,
    ephemeralContainers=_CONTAINERS,
    imagePullSecrets=_by("name"),
    hostAliases=_by("ip"),
    topologySpreadConstraints=_by("topologyKey"),
    schedulingGates=_by("name"),
    resourceClaims=_by("name"),
)
_POD_STATUS = _inside(
    conditions=_by("type"),
    hostIPs=_by("ip"),
    podIPs=_by("ip"),
    resourceClaimStatuses=_by("name"),
    containerStatuses=_CONTAINER_STATUSES,
    initContainerStatuses=_CONTAINER_STATUSES,
    ephemeralContainerStatuses=_CONTAINER_STATUSES,
)
_NODE = {
    "spec": _inside(podCIDRs=Strategy("merge")),
    "status": _inside(conditions=_by("type"), addresses=_by("type")),
}
_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
_KINDS: dict[tuple[str, str], Mapping[str, Strategy]] = {
    ("", "Pod"): {"spec": _POD_SPEC, "status": _POD_STATUS},
    ("", "Node"): _NODE,
    ("", "ServiceAccount"): {"secrets": _by("name")},
    ("", "Namespace"): {"status": _CONDITIONS},
    ("", "Secret"): {},
    ("", "ConfigMap"): {},
    ("", "Event"): {},
    ("events.k8s.io", "Event"): {},
    ("coordination.k8s.io", "Lease"): {},
    ("policy", "PodDisruptionBudget"): {
        "spec": _inside(selector=Strategy("replace")),
        "status": _CONDITIONS,
    },
    (_RBAC, "Role"): {},
    (_RBAC, "RoleBinding"): {},
    (_RBAC, "ClusterRole"): {},
    (_RBAC, "ClusterRoleBinding"): {},
    (_ADMISSION, "ValidatingAdmissionPolicy"): {
        "spec": _inside(matchConditions=_by("name"), variables=_by("name")),
    },
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): {},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {},
}


def strategy_of(group: str, kind: str) -> Strategy:
    """Return how a kind is patched; custom resources know no strategic merge patch (415)."""
    if (group, kind) not in _KINDS:
        raise errors.UnsupportedType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )
    return Strategy(fields={"metadata": _METADATA, **_KINDS[group, kind]})
