"""Which pods a maintenance would move away, and which PodDisruptionBudgets would keep them now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.maintenance.reading import MaintenanceReading
from nodemanager.client import node_draining
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance import beginning
from nodemanager.kube import errors, pods, selectors
from nodemanager.kube.objects import Resource, Untyped
from nodemanager.kube.selectors import LabelSelector
from nodemanager.kube.wording import plural

BUDGETS: Final[Resource[Untyped]] = Resource(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict
)
MOST: Final = 50
"""How many Nodes have their pods looked at."""


class Leaving(NamedTuple):
    """The pods of one host that have to leave."""

    pods: int
    kept_by: tuple[str, ...]
    """PodDisruptionBudgets that let none of theirs go at the moment."""


async def leaving(
    client: Client, judged: Judged, around: MaintenanceReading
) -> tuple[dict[str, Leaving], tuple[str, ...]]:
    """Return the pods of the first hosts that would be drained, and what could not be read of them."""
    hosts = _drained(judged, around)[:MOST]
    if not hosts:
        return {}, ()
    drain = judged.maintenance.spec.disruption.drain if judged.maintenance.spec.disruption else None
    selector = drain.pod_selector if drain is not None else None
    try:
        budgets = (await client.list(BUDGETS, Selection())).items
        found = {host: await node_draining.pods_of(client, host) for host in hosts}
    except (errors.Forbidden, errors.NotFound) as error:
        return {}, (f"{error}: which pods would have to leave is not known here",)
    return {host: on_host(on, budgets, selector) for host, on in found.items()}, ()


async def left_on(client: Client, host: str) -> str:
    """Return in words which pods a drain still waits for; empty = none, or that is not known."""
    try:
        budgets = (await client.list(BUDGETS, Selection())).items
        found = on_host(await node_draining.pods_of(client, host), budgets)
    except (errors.Forbidden, errors.NotFound):
        return ""
    if not found.pods:
        return ""
    kept = f", kept by poddisruptionbudget {', '.join(found.kept_by)}" if found.kept_by else ""
    return f"{plural(found.pods, 'pod')} left on the Node{kept}"


def _drained(judged: Judged, around: MaintenanceReading) -> list[str]:
    """Return the hosts that are yet to be drained: Kubernetes Nodes, if the maintenance drains at all."""
    plan, spec = judged.plan, judged.maintenance.spec
    if plan is None or not beginning.rules_of(spec, judged.inputs.calendar.spec, plan.work).drains:
        return []
    over = {host for host, one in judged.hosts.progress.items() if one.is_end}
    return [host for host in judged.names if host in around.found.nodes and host not in over]


def on_host(
    found: Iterable[Untyped], budgets: Sequence[Untyped], selector: LabelSelector | None = None
) -> Leaving:
    """Return what has to leave of the pods of a host, and what keeps it."""
    gone = [pod for pod in found if pods.has_to_leave(pod)]
    gone = [pod for pod in gone if selector is None or selectors.matches(selector, _labels(pod))]
    kept = (_name(one) for one in budgets if any(_keeps(one, pod) for pod in gone))
    return Leaving(len(gone), tuple(sorted(kept)))


def _keeps(budget: Untyped, pod: Untyped) -> bool:
    """Tell whether a budget covers a pod, and allows no eviction."""
    if budget["metadata"].get("namespace") != pod["metadata"].get("namespace"):
        return False
    if (budget.get("status") or {}).get("disruptionsAllowed", 0) > 0:
        return False
    chosen: Any = (budget.get("spec") or {}).get("selector")
    return chosen is not None and selectors.matches(msgspec.convert(chosen, LabelSelector), _labels(pod))


def _labels(pod: Untyped) -> Mapping[str, str]:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return labels


def _name(budget: Untyped) -> str:
    return f"{budget['metadata'].get('namespace', '')}/{budget['metadata']['name']}"
