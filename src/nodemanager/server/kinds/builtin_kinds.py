"""The kinds that exist without a definition."""

from __future__ import annotations

from nodemanager.server.kinds.resources import ALL_VERBS, STATUS_VERBS, ServedKind

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_STATUS = {"status": STATUS_VERBS}
_CORE_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
    "reportingComponent", "source", "type",
)  # fmt: skip
_EVENT_FIELDS = (
    "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
    "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type",
)  # fmt: skip

NAMESPACES = ServedKind(
    "", "v1", "Namespace", "namespaces", namespaced=False, short_names=("ns",), fields=("status.phase",),
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"), name_rule="label",
    subresources={"finalize": ("update",), **_STATUS},
)  # fmt: skip
EVENTS = ServedKind(
    "", "v1", "Event", "events", short_names=("ev",), fields=_CORE_EVENT_FIELDS, upserts=True,
    name_rule="path",
)  # fmt: skip
PODS = ServedKind(
    "", "v1", "Pod", "pods", short_names=("po",), categories=("all",), counted=True,
    subresources={"eviction": ("create",), **_STATUS},
    fields=(
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
)  # fmt: skip
BUDGETS = ServedKind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", short_names=("pdb",),
    subresources=_STATUS, counted=True, unconditional=False, name_rule="path",
)  # fmt: skip
CLUSTER_ROLES = ServedKind(
    _RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False, name_rule="path", upserts=True
)
CRDS = ServedKind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False,
    short_names=("crd", "crds"), categories=("api-extensions",), subresources=_STATUS, counted=True,
    unconditional=False,
)  # fmt: skip

POLICIES = ServedKind(
    _ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False,
    categories=("api-extensions",), subresources=_STATUS, counted=True, unconditional=False,
)  # fmt: skip
POLICY_BINDINGS = ServedKind(
    _ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings",
    namespaced=False, categories=("api-extensions",), counted=True, unconditional=False,
)  # fmt: skip
MUTATING_POLICIES = ServedKind(
    _ADMISSION, "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", namespaced=False,
    categories=("api-extensions",), counted=True, unconditional=False,
)  # fmt: skip
MUTATING_BINDINGS = ServedKind(
    _ADMISSION, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings",
    namespaced=False, categories=("api-extensions",), counted=True, unconditional=False,
)  # fmt: skip
BUILTIN: tuple[ServedKind, ...] = (
    NAMESPACES,
    ServedKind("", "v1", "ConfigMap", "configmaps", short_names=("cm",)),
    ServedKind("", "v1", "Secret", "secrets", fields=("type",)),
    ServedKind("", "v1", "ServiceAccount", "serviceaccounts", short_names=("sa",)),
    EVENTS,
    ServedKind(
        "", "v1", "Node", "nodes", namespaced=False, short_names=("no",), subresources=_STATUS,
        fields=("spec.unschedulable",), keeps_status=True,
    ),
    PODS,
    ServedKind(
        "events.k8s.io", "v1", "Event", "events", short_names=("ev",), fields=_EVENT_FIELDS,
        store="core/events", upserts=True, name_rule="path",
    ),
    ServedKind("coordination.k8s.io", "v1", "Lease", "leases", upserts=True, unconditional=False),
    BUDGETS,
    ServedKind(_RBAC, "v1", "Role", "roles", name_rule="path", upserts=True),
    ServedKind(_RBAC, "v1", "RoleBinding", "rolebindings", name_rule="path", upserts=True),
    CLUSTER_ROLES,
    ServedKind(
        _RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False, name_rule="path",
        upserts=True,
    ),
    POLICIES,
    POLICY_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_BINDINGS,
    CRDS,
)  # fmt: skip
