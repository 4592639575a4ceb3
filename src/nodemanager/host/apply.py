"""Carries out the steps of a plan for packages, services and executions; files have a batch of their own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from nodemanager.host.base import (
    Busy,
    HostError,
    PackageManager,
    ServiceKey,
    ServiceManager,
    Substituting,
    WantedPackage,
)  # fmt: skip
from nodemanager.host.process.runner import RunError
from nodemanager.host.process.runs import Runs
from nodemanager.host.process.threads import to_the_end
from nodemanager.host.results import ResourceOutcome, Result, idle_outcome, left_alone, result
from nodemanager.host.state.journal import Journal, JournalError
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import (
    Blocked,
    ChangeService,
    InstallPackage,
    Observed,
    RemovePackage,
    RestartService,
    RunCommand,
    Step,
)


class Locks(Protocol):
    """Locks that several hosts share; while another one has its turn, they are `Busy`."""

    def hold(self, name: str) -> AbstractAsyncContextManager[None]:
        """Hold a lock while inside."""


@dataclass(slots=True)
class Tools:
    """The tools that carry out steps."""

    packages: PackageManager | None
    services: ServiceManager | None
    runs: Runs
    journal: Journal
    locks: Locks
    clock: Callable[[], float] = time.monotonic


def idle(step: Step) -> Result:
    """Return the result of a step that does nothing; any other step here is an error of the planner."""
    if step.ACTS:
        raise TypeError(f"cannot do {type(step).__name__} to {step.id}: there is nobody who carries it out")
    if isinstance(step, Observed):
        return replace(result(step, left_alone(step)), mark=step.reason)
    return result(step, idle_outcome(step))


def _settled(step: Step, tools: Tools) -> Result:
    if not isinstance(step, Blocked | Observed):
        try:
            tools.journal.settle([step.id])
        except JournalError as error:
            return result(step, ResourceOutcome.FAILED, str(error))
    return idle(step)


async def apply_packages(steps: Sequence[Step], tools: Tools) -> list[Result]:
    """Remove in one transaction, install in another; if one fails as a whole, package by package.

    So one name that does not exist costs time, and does not keep the others from being installed.
    """
    results = [idle(one) for one in steps if not isinstance(one, InstallPackage | RemovePackage)]
    for kind in (RemovePackage, InstallPackage):
        wanted = [one for one in steps if isinstance(one, kind)]
        if not wanted:
            continue
        began = tools.clock()
        try:
            await _transact(wanted, tools)
        except (HostError, RunError) as error:
            if len(wanted) == 1 or isinstance(error, Busy):
                results += [
                    result(one, ResourceOutcome.FAILED, str(error), tools.clock() - began) for one in wanted
                ]
                continue
            for one in wanted:
                results += await _one_package(one, tools)
        else:
            results += [result(one, ResourceOutcome.CHANGED, seconds=tools.clock() - began) for one in wanted]
    return results


async def rehearse_packages(steps: Sequence[Step], tools: Tools, *, alone: bool = False) -> list[Step]:
    """Return the steps; what the package manager would refuse is held back, with the reason.

    With `alone`, so are steps for which it would install other packages, because no set declares those.
    """
    install = [WantedPackage(one.name, one.version) for one in steps if isinstance(one, InstallPackage)]
    remove = [one.name for one in steps if isinstance(one, RemovePackage)]
    if tools.packages is None or not (install or remove):
        return list(steps)
    try:
        refused = dict(await tools.packages.rehearse(install, remove))
        going = [name for name in remove if name not in refused]
        if alone and going and isinstance(tools.packages, Substituting):
            refused |= await tools.packages.substitutes(going)
    except (HostError, RunError) as error:
        refused = dict.fromkeys([*(one.name for one in install), *remove], str(error))
    return [
        Blocked(id=step.id, sources=step.sources, reason=refused[step.name])
        if isinstance(step, InstallPackage | RemovePackage) and step.name in refused
        else step
        for step in steps
    ]


async def _one_package(step: Step, tools: Tools) -> list[Result]:
    began = tools.clock()
    try:
        await _transact([step], tools)
    except (HostError, RunError) as error:
        return [result(step, ResourceOutcome.FAILED, str(error), tools.clock() - began)]
    return [result(step, ResourceOutcome.CHANGED, seconds=tools.clock() - began)]


async def _transact(steps: Sequence[Step], tools: Tools) -> None:
    if tools.packages is None:
        raise HostError("cannot change packages: this host has no package manager that we know")
    install = [WantedPackage(one.name, one.version) for one in steps if isinstance(one, InstallPackage)]
    if install:
        await tools.packages.install(install)
    remove = [one.name for one in steps if isinstance(one, RemovePackage)]
    if remove:
        await tools.packages.remove(remove)


async def apply_services(steps: Sequence[Step], tools: Tools, unread: set[str] | None = None) -> list[Result]:
    """Change and restart service by service; refresh the service manager before and after, where needed.

    Refreshing takes systemd up to a second. A caller to whom it matters that a unit starts at boot, and
    not that systemd knows it, passes a set: then the users whose manager needs a refresh are added to it.
    """
    results: list[Result] = []
    refreshed: set[str] = set()
    enabled: dict[str, set[ResourceId]] = {}
    for step in steps:
        if not isinstance(step, ChangeService | RestartService):
            results.append(_settled(step, tools))  # nothing is owed to what is not to run
            continue
        began, done = tools.clock(), step
        try:
            if step.refresh and step.user not in refreshed:
                refreshed.add(step.user)
                await _manager(tools).refresh(step.user)
            if isinstance(step, ChangeService):
                await _change(step, tools, enabled)
            else:
                done = await _restart(step, tools)
        except Busy as error:
            results.append(result(step, ResourceOutcome.BLOCKED, str(error), tools.clock() - began))
        except (HostError, RunError) as error:
            results.append(result(step, ResourceOutcome.FAILED, str(error), tools.clock() - began))
        else:
            results.append(result(done, ResourceOutcome.CHANGED, seconds=tools.clock() - began))
    if unread is not None:
        unread.update(enabled)
        return results
    return await _refresh(enabled, results, tools)


async def _refresh(
    enabled: Mapping[str, AbstractSet[ResourceId]], results: list[Result], tools: Tools
) -> list[Result]:
    """Have the service managers notice what starts at boot; once for all that was enabled or disabled."""
    for user, ids in enabled.items():
        try:
            await _manager(tools).refresh(user)
        except (HostError, RunError) as error:
            results = [
                replace(one, outcome=ResourceOutcome.FAILED, message=str(error))
                if one.id in ids and one.outcome is ResourceOutcome.CHANGED
                else one
                for one in results
            ]
    return results


def _manager(tools: Tools) -> ServiceManager:
    if tools.services is None:
        raise HostError("cannot change services: this host has no service manager that we know")
    return tools.services


async def _change(step: ChangeService, tools: Tools, unnoticed: dict[str, set[ResourceId]]) -> None:
    """Change it, and take note if the service manager of its user has yet to notice a part of that."""
    manager, key = _manager(tools), ServiceKey(step.name, step.user)
    if step.enable is not None and await manager.enable(key, enabled=step.enable):
        unnoticed.setdefault(step.user, set()).add(step.id)  # also if the rest fails
    if step.arguments is not None:
        await manager.set_arguments(key, step.arguments)
    if step.run is True:
        await to_the_end(manager.start(key))
        tools.journal.settle([step.id])  # it runs with what is on disk now
    elif step.run is False:
        await to_the_end(manager.stop(key))


async def _restart(step: RestartService, tools: Tools) -> RestartService:
    """Restart or reload it; returns what was done, as not every service can be reloaded."""
    lock = tools.locks.hold(step.lock_group) if step.lock_group else contextlib.nullcontext()
    async with lock:
        reloaded = await to_the_end(_reload_or_restart(step, _manager(tools)))
        tools.journal.settle([step.id])  # done, even if the lock turns out to have been lost meanwhile
    return msgspec.structs.replace(step, reload=reloaded)


async def _reload_or_restart(step: RestartService, manager: ServiceManager) -> bool:
    key = ServiceKey(step.name, step.user)
    if step.reload:
        return await manager.reload(key)
    await manager.restart(key)
    return False


async def apply_executions(steps: Sequence[Step], tools: Tools) -> list[Result]:
    """Run programs one after the other, in the order of their declarations."""
    results = []
    for step in steps:
        if not isinstance(step, RunCommand):
            results.append(_settled(step, tools))
            continue
        began = tools.clock()
        try:
            await _execute(step, tools)
        except (HostError, RunError) as error:
            results.append(result(step, ResourceOutcome.FAILED, str(error), tools.clock() - began))
        else:
            results.append(result(step, ResourceOutcome.CHANGED, seconds=tools.clock() - began))
    return results


async def _execute(step: RunCommand, tools: Tools) -> None:
    try:
        (await tools.runs.run(step.id, step.execution)).check()
    except (HostError, RunError):
        with contextlib.suppress(JournalError):  # then the next pass finds out how it ended
            tools.journal.end(step.id)
        raise
    tools.journal.settle([step.id])
    with contextlib.suppress(OSError):  # not before: until then it is the only record that it has run
        tools.runs.clear(step.id)
