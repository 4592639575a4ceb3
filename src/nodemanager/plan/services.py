"""Services: the plan from their present to their wanted state; and the restarts that are due."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from nodemanager.api.common.declarations import Service
from nodemanager.plan import resources
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.facts import Facts, ServiceFact
from nodemanager.plan.host_kinds import (
    DriftRule,
    HostKind,
    KindDeclaration,
    Metric,
    Naming,
    Owning,
    PlanInput,
    brings_nothing,
)
from nodemanager.plan.needs import ServiceNeeds
from nodemanager.plan.ownership import Owned, PutBack, State
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import Blocked, ChangeService, Lack, Noop, Observed, RestartService, Step
from nodemanager.plan.subscribers import because, held_cause

MASKED = "masked"
_UNIT_FOLDERS: Final = ("/systemd/system/", "/systemd/user/")
_SAYS_NOTHING: Final = ("", "not running")
"""States that say no more than that a service does not run."""
_STARTS: Final = "it starts at boot, which is not our doing, so it goes on running"
_MAY_START: Final = "others may start it (it can be neither enabled nor disabled), so it goes on running"


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
    obstacle = fact.error or _obstacle(wanted, fact, desired)
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


def _obstacle(wanted: Service, fact: ServiceFact, desired: Desired) -> str:
    """Return what makes it impossible, or an empty string."""
    if fact.known and fact.state == MASKED and (wanted.ensure == "running" or wanted.enable):
        return f"cannot start or enable {wanted.name}: it is masked; run systemctl unmask {wanted.name}"
    if not fact.known and (wanted.ensure == "running" or wanted.enable):
        remedy = (
            f"package {wanted.name} is declared, and has not brought it: see what became of that"
            if desired.installs(wanted.name)
            else "correct the name, or declare the package or the unit file that brings it"
        )
        return f"cannot find service {wanted.name}: the host has none of this name; {remedy}"
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
        reasons.append("is not running" + (f" ({fact.state})" if fact.state not in _SAYS_NOTHING else ""))
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


def _seen(item: Item[Service], step: Step, facts: Facts) -> tuple[State, State] | None:
    """Return whether a service runs and starts at boot; what of that is not declared is not ours."""
    fact, wanted = facts.services.get(item.id, ServiceFact()), item.declaration
    if isinstance(step, Blocked | Observed) or not fact.known or fact.error:
        return None
    now, then = {"running": "", "enabled": ""}, {"running": "", "enabled": ""}
    if wanted.ensure:
        now["running"] = _text(fact.running or fact.unsettled)
        then["running"] = _text(wanted.ensure == "running")
    if wanted.enable is not None and fact.enabled is not None:
        now["enabled"], then["enabled"] = _text(fact.enabled), _text(wanted.enable)
    return now, then


def missing(service: Service) -> State:
    """Return the state of a service that is not there yet: what brings it may start and enable it."""
    return {"running": _text(False) if service.ensure else "", "enabled": _text(False)}


def _text(value: bool) -> str:
    return "true" if value else "false"


def _named(one: ResourceId) -> Service:
    user, _, name = one.name.rpartition("/")
    return Service(name=name, user=user)


def needs_of(ids: Iterable[ResourceId]) -> ServiceNeeds:
    """Return what has to be observed of services that are known by their names only."""
    return tuple(Item(one, _named(one), ()) for one in ids)


def _put_back(owned: Mapping[ResourceId, Owned], facts: Facts) -> dict[ResourceId, PutBack]:
    return {one: _one_back(one, entry, facts.services.get(one)) for one, entry in owned.items()}


def _one_back(one: ResourceId, entry: Owned, fact: ServiceFact | None) -> PutBack:
    """Return those parts that are as we left them and were otherwise before; the others are not ours."""
    if fact is None or fact.error:
        return PutBack(left=fact.error if fact else "was not observed")
    if not fact.known:
        return PutBack()
    wanted, why = _named(one), list[str]()
    before, ours = entry.before or {}, entry.ours[-1] if entry.ours else {}
    enabled, running = before.get("enabled", ""), before.get("running", "")
    runs = fact.running or fact.unsettled
    if enabled and ours.get("enabled", "") not in ("", enabled) and fact.enabled is (enabled == "false"):
        wanted = msgspec.structs.replace(wanted, enable=enabled == "true")
        why.append("it was enabled before" if wanted.enable else "it was not enabled before")
    now = {"enabled": _text(fact.enabled is True), "running": _text(runs)}
    kept = {part: value if now.get(part) == value else "" for part, value in ours.items()}
    if running and ours.get("running", "") not in ("", running) and runs is (running == "false"):
        starts = fact.enabled is not False if wanted.enable is None else wanted.enable
        if running == "false" and starts and enabled != "false":
            # It may have crashed, or the host was booting, when we first saw it.
            back = PutBack(wanted, ", ".join(why), ours=kept)
            said = _MAY_START if fact.enabled is None else _STARTS
            return back if why else PutBack(left=said, final=True, ours=kept)
        wanted = msgspec.structs.replace(wanted, ensure="running" if running == "true" else "stopped")
        why.append("it ran before" if running == "true" else "it did not run before")
    return PutBack(wanted, ", ".join(why), ours=kept) if why else PutBack()


def _unit(service: Service) -> str:
    return service.name if "." in service.name else f"{service.name}.service"


def _unit_of(path: str) -> str:
    """Return the unit that a file of a service manager is about: a unit file, or a drop-in of one."""
    rest = next((path.partition(one)[2] for one in _UNIT_FOLDERS if one in path), "")
    return rest.partition("/")[0].removesuffix(".d")


KIND: Final[HostKind[Service, ServiceNeeds, Facts]] = HostKind(
    name=resources.SERVICE,
    words=("service", "services"),
    declaring=KindDeclaration(
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
    owning=Owning(_seen, needs_of, _put_back),
    public=True,
    brings=brings_nothing,
    naming=Naming(name=_unit, of_path=_unit_of),
    begins=lambda service: service.ensure == "running" or bool(service.enable),
)
