"""Keeps the ConfigSets that operations of type realtime become; nobody else's set is ever touched."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.operations import Operation
from nodemanager.client.calls import DeleteOptions
from nodemanager.client.patches import MergePatch, difference
from nodemanager.client.verbs import Client
from nodemanager.controllers.node_maintenances.inputs import InputReader
from nodemanager.controllers.node_maintenances.undertaking import Seen
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


@dataclass(frozen=True, slots=True)
class RealtimeSets:
    """Makes, changes and removes the sets of maintenances."""

    client: Client
    sets: Cache[ConfigSet]
    inputs: InputReader

    async def keep(self, seen: Seen) -> RealtimeKept | None:
        """Have the sets of a maintenance be as they shall be; None = it has no operation of this type."""
        maintenance = seen.maintenance
        await self._remove(realtime.obsolete(self.sets.values(), maintenance))
        found = realtime.operations(maintenance)
        kept: list[str] = []
        problems: list[str] = []
        for operation in found:
            try:
                kept.append(await self._keep_one(seen, operation))
            except (RealtimeError, errors.KubeError) as error:
                problems.append(str(error))
        return RealtimeKept(tuple(kept), tuple(problems)) if found else None

    async def _keep_one(self, seen: Seen, operation: Operation) -> str:
        maintenance = seen.maintenance
        name = realtime.set_name(maintenance.metadata.name, operation.name)
        known = self._known(maintenance, name)
        wanted = await self._wanted(seen, operation, known)
        if known is None:
            await self._create(wanted)
        elif known.spec != wanted.spec:
            await self._change(known, wanted)
        return name

    def _known(self, maintenance: NodeMaintenance, name: str) -> ConfigSet | None:
        known = self.sets.get(ObjectKey(maintenance.metadata.namespace, name))
        if known is not None and not realtime.is_ours(known, maintenance):
            raise RealtimeError(_taken(name))
        return known

    async def _wanted(self, seen: Seen, operation: Operation, known: ConfigSet | None) -> ConfigSet:
        approval = seen.maintenance.spec.approval
        if approval is not None and approval.required:
            raise RealtimeError(
                f"operation {operation.name}: what is enforced at all times cannot be approved yet; put it"
                " into a maintenance without approval"
            )
        hosts = [host for group in seen.inputs.groups for host in group.hosts]
        if not hosts:
            why = seen.inputs.problem.message if seen.inputs.problem else "the series chooses no host"
            raise RealtimeError(f"operation {operation.name}: {why}")
        chosen = realtime.chosen(self.inputs.series(seen.maintenance), hosts)
        given = known.spec.enforcement if known is not None else None
        spans = given.openings if given is not None else []
        openings = await asyncio.to_thread(realtime.openings, seen.inputs.calendar, spans, seen.now)
        templates = self.inputs.templates(seen.maintenance, operation)
        return realtime.wanted(seen.maintenance, operation, templates, chosen, openings)

    async def _create(self, wanted: ConfigSet) -> None:
        try:
            await self.client.create(CONFIG_SETS, wanted, wanted.metadata.namespace)
        except errors.AlreadyExists as error:  # our cache is behind, or somebody else was faster
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
            return  # somebody changed it: the next look sees that
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
