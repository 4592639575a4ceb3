"""The columns of the built-in kinds, with the cells Kubernetes prints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from nodemanager.kube import times
from nodemanager.kube.objects import Untyped
from nodemanager.server.verbs.stored import at_path

NONE, UNKNOWN = "<none>", "<unknown>"
_TYPES = {"Allowed Disruptions": "integer"}
_ROLE = "node-role.kubernetes.io/"


class Heading(NamedTuple):
    """A column of a Table."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def as_json(self) -> Untyped:
        """Return the column definition."""
        return self._asdict()


class KindPrinter(NamedTuple):
    """How a kind is printed."""

    headings: tuple[Heading, ...]
    cells: Callable[[Untyped, datetime], list[Any]]


def age(timestamp: Any, now: datetime) -> str:
    """Return how long ago a timestamp was."""
    if not timestamp:
        return UNKNOWN
    try:
        then = datetime.fromisoformat(str(timestamp))
        return times.human_duration((now - then).total_seconds())
    except (ValueError, TypeError):  # TypeError: a time without a zone
        return "<invalid>"


def _created(obj: Untyped, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _headings(*names: str, wide: tuple[str, ...] = ()) -> tuple[Heading, ...]:
    shown = [
        Heading(name, _TYPES.get(name, "string"), "name" if name == "Name" else "", description=name)
        for name in names
    ]
    return (*shown, *(Heading(name, "string", "name" if name == "Name" else "", 1, name) for name in wide))


def _name(obj: Untyped) -> str:
    return str(obj["metadata"]["name"])


def _pod(obj: Untyped, now: datetime) -> list[Any]:
    statuses = at_path(obj, "status.containerStatuses") or []
    ready = sum(bool(status.get("ready")) for status in statuses)
    restarts = sum(status.get("restartCount") or 0 for status in statuses)
    state = at_path(obj, "status.reason") or at_path(obj, "status.phase") or ""
    if obj["metadata"].get("deletionTimestamp"):
        state = "Terminating"
    containers = len(at_path(obj, "spec.containers") or [])
    return [
        _name(obj), f"{ready}/{containers}", state, str(restarts), _created(obj, now),
        at_path(obj, "status.podIP") or NONE, at_path(obj, "spec.nodeName") or NONE,
        at_path(obj, "status.nominatedNodeName") or NONE, NONE,
    ]  # fmt: skip


def _node(obj: Untyped, now: datetime) -> list[Any]:
    conditions = at_path(obj, "status.conditions") or []
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), None)
    states = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if at_path(obj, "spec.unschedulable"):
        states.append("SchedulingDisabled")
    labels = obj["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE)
    addresses = {one.get("type"): one.get("address") for one in at_path(obj, "status.addresses") or []}
    info = at_path(obj, "status.nodeInfo") or {}
    kernel, architecture = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return [
        _name(obj), ",".join(states), ",".join(roles) or NONE, _created(obj, now),
        info.get("kubeletVersion", ""), addresses.get("InternalIP", NONE), addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN, f"{kernel} ({architecture})" if architecture else kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]  # fmt: skip


def _event(obj: Untyped, now: datetime) -> list[Any]:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    series = at_path(obj, "series.lastObservedTime")
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    parts = [source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""]
    parts += [source["host"]] if source.get("host") else []
    count = at_path(obj, "series.count") or obj.get("count") or obj.get("deprecatedCount") or 1
    return [
        age(series or last, now), obj.get("type", ""), obj.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}", about.get("fieldPath", ""),
        ", ".join(parts), str(obj.get("message") or obj.get("note") or "").strip(), age(first, now), count,
        _name(obj),
    ]  # fmt: skip


def _binding(obj: Untyped, now: datetime) -> list[Any]:
    subjects = obj.get("subjects") or []
    role = obj.get("roleRef") or {}

    def of(kind: str) -> str:
        chosen = [one for one in subjects if one.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{one.get('namespace', '')}/{one.get('name', '')}" for one in chosen)
        return ", ".join(str(one.get("name", "")) for one in chosen)

    cells = [_name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", _created(obj, now)]
    return [*cells, of("User"), of("Group"), of("ServiceAccount")]


def _budget(obj: Untyped, now: datetime) -> list[Any]:
    least, most = at_path(obj, "spec.minAvailable"), at_path(obj, "spec.maxUnavailable")
    allowed = at_path(obj, "status.disruptionsAllowed") or 0
    texts = ["N/A" if value is None else str(value) for value in (least, most)]
    return [_name(obj), *texts, allowed, _created(obj, now)]


def _config_map(obj: Untyped, now: datetime) -> list[Any]:
    size = len(obj.get("data") or {}) + len(obj.get("binaryData") or {})
    return [_name(obj), size, _created(obj, now)]


def _secret(obj: Untyped, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or {}), _created(obj, now)]


def _policy(counted: str) -> Callable[[Untyped, datetime], list[Any]]:
    def row(obj: Untyped, now: datetime) -> list[Any]:
        param = at_path(obj, "spec.paramKind") or {}
        text = f"{param.get('apiVersion', '')}/{param.get('kind', '')}" if param else "<unset>"
        return [_name(obj), len(at_path(obj, counted) or []), text, _created(obj, now)]

    return row


def _policy_binding(obj: Untyped, now: datetime) -> list[Any]:
    ref = at_path(obj, "spec.paramRef") or {}
    text = f"{ref.get('namespace', '*')}/{ref.get('name', '')}" if ref else "<unset>"
    return [_name(obj), at_path(obj, "spec.policyName") or "", text, _created(obj, now)]


_BINDING = KindPrinter(
    _headings("Name", "Role", "Age", wide=("Users", "Groups", "ServiceAccounts")), _binding
)
PRINTERS: dict[str, KindPrinter] = {
    "namespaces": KindPrinter(
        _headings("Name", "Status", "Age"),
        lambda obj, now: [_name(obj), at_path(obj, "status.phase") or "", _created(obj, now)],
    ),
    "secrets": KindPrinter(_headings("Name", "Type", "Data", "Age"), _secret),
    "configmaps": KindPrinter(_headings("Name", "Data", "Age"), _config_map),
    "serviceaccounts": KindPrinter(
        _headings("Name", "Age"), lambda obj, now: [_name(obj), _created(obj, now)]
    ),
    "events": KindPrinter(
        (
            *_headings("Last Seen", "Type", "Reason", "Object", wide=("Subobject", "Source")),
            *_headings("Message", wide=("First Seen", "Count", "Name")),
        ),
        _event,
    ),
    "nodes": KindPrinter(
        _headings(
            "Name", "Status", "Roles", "Age", "Version",
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    "pods": KindPrinter(
        _headings(
            "Name", "Ready", "Status", "Restarts", "Age",
            wide=("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        _pod,
    ),
    "leases": KindPrinter(
        _headings("Name", "Holder", "Age"),
        lambda obj, now: [_name(obj), at_path(obj, "spec.holderIdentity") or "", _created(obj, now)],
    ),
    "poddisruptionbudgets": KindPrinter(
        _headings("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _budget
    ),
    "rolebindings": _BINDING,
    "clusterrolebindings": _BINDING,
    "validatingadmissionpolicies": KindPrinter(
        _headings("Name", "Validations", "ParamKind", "Age"), _policy("spec.validations")
    ),
    "mutatingadmissionpolicies": KindPrinter(
        _headings("Name", "Mutations", "ParamKind", "Age"), _policy("spec.mutations")
    ),
    "mutatingadmissionpolicybindings": KindPrinter(
        _headings("Name", "PolicyName", "ParamRef", "Age"), _policy_binding
    ),
    "validatingadmissionpolicybindings": KindPrinter(
        _headings("Name", "PolicyName", "ParamRef", "Age"), _policy_binding
    ),
}  # fmt: skip
