"""Keeps the ConfigSets that operations of type realtime become; sets of others are never changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.enforcement import EnforcedSpan
from nodemanager.api.maintenance.maintenance_status import RealtimePlan
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.operations import Operation
from nodemanager.client.calls import DeleteOptions
from nodemanager.client.patches import MergePatch, difference
from nodemanager.client.verbs import Client
from nodemanager.controllers.node_maintenances.inputs import InputReader
from nodemanager.controllers.node_maintenances.undertaking import MaintenanceSnapshot, approvers
from nodemanager.fleet.maintenance import realtime
from nodemanager.fleet.maintenance.realtime import RealtimeError
from nodemanager.kube import errors
from nodemanager.kube.objects import ObjectKey
from nodemanager.runtime.cache import Cache

log = logging.getLogger("nodemanager.operator")


@dataclass(frozen=True, slots=True)
class RealtimeKept:
    """Which operations of type realtime have their set, and what is wrong with the others."""

    sets: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    plan: RealtimePlan | None = None
    """The plan that needs an approval; None: no approval is needed."""
    approved: bool = True


def declared(
    seen: MaintenanceSnapshot,
    inputs: InputReader,
    operation: Operation,
    openings: Sequence[EnforcedSpan] = (),
) -> ConfigSet:
    """Return the set of an operation; raise RealtimeError if there can be none."""
    hosts = [host for group in seen.inputs.groups for host in group.hosts]
    if not hosts:
        why = seen.inputs.problem.message if seen.inputs.problem else "the series chooses no host"
        raise RealtimeError(f"operation {operation.name}: {why}")
    chosen = realtime.chosen(inputs.series(seen.maintenance), hosts)
    templates = inputs.templates(seen.maintenance, operation)
    return realtime.wanted(seen.maintenance, operation, templates, chosen, openings)


def planned(seen: MaintenanceSnapshot, sets: Mapping[str, ConfigSet]) -> RealtimePlan | None:
    """Return the plan to be approved, made of the sets by operation; None = no approval is needed."""
    approval = seen.maintenance.spec.approval
    if approval is None or not approval.required or not sets:
        return None
    hashed = realtime.plan_hash(seen.maintenance, sets, seen.inputs.calendar.spec)
    return RealtimePlan(hash=hashed, operations=sorted(sets))


@dataclass(frozen=True, slots=True)
class RealtimeSets:
    """Creates, changes and removes the sets of maintenances."""

    client: Client
    sets: Cache[ConfigSet]
    inputs: InputReader

    async def keep(self, seen: MaintenanceSnapshot) -> RealtimeKept | None:
        """Keep the sets of a maintenance as they should be; None = it has no operation of this type."""
        maintenance = seen.maintenance
        await self._remove(realtime.obsolete(self.sets.values(), maintenance))
        found = realtime.operations(maintenance)
        if not found:
            return None
        wanted: dict[str, ConfigSet] = {}
        problems: list[str] = []
        for operation in found:
            try:
                openings = await self._openings(seen, operation)
                wanted[operation.name] = declared(seen, self.inputs, operation, openings)
            except RealtimeError as error:
                problems.append(str(error))
        plan = planned(seen, wanted)
        approved = plan is None or bool(approvers(maintenance, plan.hash, self.inputs.caches))
        kept: list[str] = []
        for one in wanted.values():
            try:
                await self._keep_one(maintenance, one, approved=approved)
                kept.append(one.metadata.name)
            except (RealtimeError, errors.KubeError) as error:
                problems.append(str(error))
        return RealtimeKept(tuple(kept), tuple(problems), plan, approved)

    async def _openings(self, seen: MaintenanceSnapshot, operation: Operation) -> list[EnforcedSpan]:
        """Return the spans that hosts are given; those that they have, while these are true."""
        meta = seen.maintenance.metadata
        known = self.sets.get(ObjectKey(meta.namespace, realtime.set_name(meta.name, operation.name)))
        given = known.spec.enforcement if known is not None else None
        spans = given.openings if given is not None else []
        return await asyncio.to_thread(realtime.openings, seen.inputs.calendar, spans, seen.now)

    async def _keep_one(self, maintenance: NodeMaintenance, wanted: ConfigSet, *, approved: bool) -> None:
        """Write a set. Unapproved content reaches no host: until then, the previous set only reports."""
        name = wanted.metadata.name
        known = self.sets.get(ObjectKey(maintenance.metadata.namespace, name))
        if known is not None and not realtime.is_ours(known, maintenance):
            raise RealtimeError(_taken(name))
        if not approved:
            wanted = realtime.shut(known) if known is not None else wanted
        if known is None and approved:
            await self._create(wanted)
        elif known is not None and known.spec != wanted.spec:
            await self._change(known, wanted)

    async def _create(self, wanted: ConfigSet) -> None:
        try:
            await self.client.create(CONFIG_SETS, wanted, wanted.metadata.namespace)
        except errors.AlreadyExists as error:  # our cache is behind, or another writer was faster
            meta = wanted.metadata
            there = await self.client.get(CONFIG_SETS, meta.name, meta.namespace)
            if there.metadata.owner_references != meta.owner_references:
                raise RealtimeError(_taken(meta.name)) from error
        except errors.Invalid as error:
            raise RealtimeError(f"ConfigSet {wanted.metadata.name}: {error}") from error

    async def _change(self, known: ConfigSet, wanted: ConfigSet) -> None:
        meta = known.metadata
        change = difference(msgspec.to_builtins(known.spec), msgspec.to_builtins(wanted.spec))
        body = MergePatch({"metadata": {"resourceVersion": meta.resource_version}, "spec": change})
        try:
            await self.client.patch(CONFIG_SETS, meta.name, meta.namespace, body)
        except errors.Conflict:
            return  # the set was changed: the next look sees that
        except errors.Invalid as error:
            raise RealtimeError(f"ConfigSet {meta.name}: {error}") from error

    async def _remove(self, sets: Sequence[ConfigSet]) -> None:
        for one in sets:
            try:
                await self.client.delete(
                    CONFIG_SETS, one.metadata.name, one.metadata.namespace,
                    options=DeleteOptions(uid=one.metadata.uid),
                )  # fmt: skip
            except errors.KubeError as error:
                log.warning("cannot remove ConfigSet %s: %s", one.metadata.name, error)


def _taken(name: str) -> str:
    return f"ConfigSet {name} is there already, and is not of this maintenance; rename one of them"
