"""The few built-in kinds that we read or write ourselves, with the fields we use of them."""

from __future__ import annotations

from typing import Final

from nodemanager.kube import wording
from nodemanager.kube.objects import ObjectMeta, Resource, Struct, Untyped

MAX_EVENT_MESSAGE: Final = 1024
"""Bytes of an Event's message, as Kubernetes has it for those of events.k8s.io."""


class LeaseSpec(Struct):
    """The holder of a lease, since when, and for how long without renewal."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct):
    """`coordination.k8s.io/v1` Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(Struct):
    """What an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSource(Struct):
    """The reporter of an event, and its host."""

    component: str = ""
    host: str = ""


class Event(Struct):
    """`v1` Event, as `kubectl describe` shows it."""

    metadata: ObjectMeta
    involved_object: ObjectReference
    type: str = ""
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


def event_message(text: str) -> str:
    """Return a text as an Event may have it.

    File names are bytes: what is no Unicode in one must not end us when it is encoded.
    """
    return wording.shorten_bytes(text, MAX_EVENT_MESSAGE)


class Secret(Struct):
    """`v1` Secret; bytes travel as base64."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, bytes] | None = None

    @property
    def values(self) -> dict[str, bytes]:
        """All that it holds."""
        return self.data or {}


class ConfigMap(Struct):
    """`v1` ConfigMap; no key is in both of its maps."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None

    @property
    def values(self) -> dict[str, str | bytes]:
        """All that it holds: texts, and bytes that are none."""
        return {**(self.data or {}), **(self.binary_data or {})}


class Role(Struct):
    """`rbac.authorization.k8s.io/v1` Role; its rules are compared, never interpreted."""

    metadata: ObjectMeta = ObjectMeta()
    rules: list[Untyped] | None = None  # null when there are none


class RoleBinding(Struct):
    """`rbac.authorization.k8s.io/v1` RoleBinding; its subjects are compared, never interpreted."""

    metadata: ObjectMeta = ObjectMeta()
    role_ref: Untyped = {}
    subjects: list[Untyped] | None = None


LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", Lease)
EVENTS = Resource("", "v1", "Event", "events", Event)
SECRETS = Resource("", "v1", "Secret", "secrets", Secret)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", Role)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", RoleBinding)
CLUSTER_ROLES: Resource[Untyped] = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", dict, namespaced=False
)
CLUSTER_ROLE_BINDINGS: Resource[Untyped] = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", dict, namespaced=False
)
PODS: Resource[Untyped] = Resource("", "v1", "Pod", "pods", dict)
NODES: Resource[Untyped] = Resource("", "v1", "Node", "nodes", dict, namespaced=False)
SERVICE_ACCOUNTS: Resource[Untyped] = Resource("", "v1", "ServiceAccount", "serviceaccounts", dict)
_ADMISSION = "admissionregistration.k8s.io"
POLICIES: Resource[Untyped] = Resource(
    _ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", dict, False
)
POLICY_BINDINGS: Resource[Untyped] = Resource(
    _ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", dict, False
)
MUTATING_POLICIES: Resource[Untyped] = Resource(
    _ADMISSION, "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", dict, False
)
MUTATING_BINDINGS: Resource[Untyped] = Resource(
    _ADMISSION, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", dict, False
)
CRDS: Resource[Untyped] = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", dict, False
)
