"""Services: what runs and starts at boot against what shall; and the restarts that are owed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from nodemanager.api.common.declarations import Service
from nodemanager.plan import resources
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.facts import Facts, ServiceFact
from nodemanager.plan.host_kinds import Declaring, DriftRule, HostKind, Metric, PlanInput
from nodemanager.plan.needs import ServiceNeeds
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, ChangeService, Lack, Noop, RestartService, Step
from nodemanager.plan.subscribers import because, held_cause

MASKED = "masked"


def plan_services(
    desired: Desired,
    facts: Facts,
    changing: Mapping[ResourceId, tuple[str, ...]] | None = None,
    *,
    settled: bool = False,
) -> Iterator[Step]:
    """Yield the steps for each service; `changing` is what files of the same plan would make restart.

    With `settled`, those that are on their way somewhere are left out: they tell when they have arrived.
    """
    for item in desired.services:
        fact = facts.services.get(item.id, ServiceFact(error="was not observed"))
        if settled and fact.unsettled:
            continue
        pending = facts.pending.get(item.id)
        causes = dict.fromkeys((*(pending.causes if pending else ()), *(changing or {}).get(item.id, ())))
        yield from _plan(item, fact, tuple(causes), desired)


def _plan(
    item: Item[Service], fact: ServiceFact, causes: tuple[str, ...], desired: Desired
) -> Iterator[Step]:
    wanted = item.declaration
    obstacle = fact.error or _obstacle(wanted, fact)
    if obstacle:
        lack = None if fact.known or fact.error else _lack(wanted)
        yield Blocked(id=item.id, sources=item.sources, reason=obstacle, lack=lack)
        return
    held = held_cause(wanted.subscribe_files, desired)
    if held and wanted.ensure == "running":
        yield Blocked(id=item.id, sources=item.sources, reason=f"waits for {held}, which is in conflict")
        return
    if not fact.known:
        yield Noop(id=item.id, sources=item.sources, reason="there is no such service")
        return
    change = _change(item, fact)
    if change is not None:
        yield change
    started = change is not None and change.run is not None
    if causes and wanted.ensure == "running" and not started:
        yield RestartService(
            id=item.id, sources=item.sources, reason=because(causes), name=wanted.name, user=wanted.user,
            reload=wanted.reload, lock_group=wanted.lock_group, causes=causes,
            refresh=fact.stale and change is None,
        )  # fmt: skip
    elif change is None:
        yield Noop(id=item.id, sources=item.sources, reason=_as_it_is(fact))


def _obstacle(wanted: Service, fact: ServiceFact) -> str:
    """Return what makes it impossible, or an empty string."""
    if fact.known and fact.state == MASKED and (wanted.ensure == "running" or wanted.enable):
        return f"cannot start or enable {wanted.name}: it is masked; run systemctl unmask {wanted.name}"
    if not fact.known and (wanted.ensure == "running" or wanted.enable):
        return (
            f"cannot find service {wanted.name}: the host has none of this name; correct the name, or"
            " declare the package or the unit file that brings it"
        )
    return ""


def _lack(wanted: Service) -> Lack:
    """Return what brings a service that is not there: its package, or its unit file or script."""
    name, (template, at, _instance) = wanted.name, wanted.name.partition("@")
    files = (f"/{name}.service", f"/systemd/system/{name}", f"/init.d/{name}", f"/rc.d/{name}")
    then = "will start" if wanted.ensure == "running" else "will enable"
    return Lack("it", then, (*files, f"/{template}@.service") if at else files)


def _change(item: Item[Service], fact: ServiceFact) -> ChangeService | None:
    wanted = item.declaration
    reasons = []
    enable = arguments = run = None
    if wanted.enable is not None and fact.enabled is not None and wanted.enable != fact.enabled:
        enable = wanted.enable
        reasons.append("does not start at boot" if enable else "starts at boot")
    if wanted.arguments and fact.arguments is not None and wanted.arguments != fact.arguments:
        arguments = wanted.arguments
        reasons.append("has other arguments")
    if wanted.ensure == "running" and not fact.running:
        run = True
        reasons.append(f"is not running ({fact.state})" if fact.state else "is not running")
    elif wanted.ensure == "stopped" and (fact.running or fact.unsettled):
        run = False
        reasons.append("is running" if fact.running else f"is not stopped ({fact.state})")
    if fact.stale:
        reasons.append("its unit file changed")
    if not reasons:
        return None
    return ChangeService(
        id=item.id, sources=item.sources, reason=", ".join(reasons), name=wanted.name, user=wanted.user,
        enable=enable, arguments=arguments, run=run, refresh=fact.stale,
    )  # fmt: skip


def _as_it_is(fact: ServiceFact) -> str:
    boot = {True: ", enabled", False: ", disabled", None: ""}[fact.enabled]
    return ("is running" if fact.running else "is not running") + boot


def _plan_input(given: PlanInput, facts: Facts) -> list[Step]:
    return list(plan_services(given.desired, facts, given.changing, settled=given.repair))


def _plain(service: Service) -> Service:
    """Each set may have its own reasons to restart a service; that is no contradiction."""
    return msgspec.structs.replace(service, subscribe_files=[])


def _united(chosen: Service, said: Sequence[Service]) -> Service:
    paths = dict.fromkeys(path for one in said for path in one.subscribe_files)
    return msgspec.structs.replace(chosen, subscribe_files=[path.rstrip("/") or "/" for path in paths])


KIND: Final[HostKind[Service, ServiceNeeds, Facts]] = HostKind(
    name=resources.SERVICE,
    words=("service", "services"),
    declaring=Declaring(
        field="services",
        identify=lambda _set, service: resources.service_id(service),
        plain=_plain,
        unite=_united,
        subscriptions=lambda service: service.subscribe_files if service.ensure == "running" else (),
    ),
    needs=lambda given: given.desired.services,
    plan=_plan_input,
    count=Metric("nodemanager_service_operations_total", "Services changed.", by="operation"),
    drift=DriftRule(),
)
