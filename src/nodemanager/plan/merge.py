"""All ConfigSets of a host become one Desired: equal ones merge, priority decides, a tie is a conflict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

import msgspec

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.declarations import Execution, File, Package, Service
from nodemanager.plan import resources
from nodemanager.plan.desired import D, Desired, Item
from nodemanager.plan.resources import ResourceId

P = TypeVar("P", Package, File, Service)
OBSERVE: Final = "observe"
"""The drift policy that leaves alone what somebody else changed."""


@dataclass(frozen=True, slots=True)
class _Claim(Generic[D]):
    """What one ConfigSet says about a resource."""

    config_set: str
    priority: int
    declaration: D
    """In one spelling, and without its drift policy: two sets that differ in that only do not conflict."""
    observe: bool


class _Conflicts:
    """Resources that are declared differently with equal priority."""

    def __init__(self) -> None:
        self.of_set: dict[str, list[str]] = defaultdict(list)
        self.held: dict[ResourceId, str] = {}

    def add(self, resource: ResourceId, tied: Sequence[_Claim[D]]) -> None:
        for claim in tied:
            others = (other.config_set for other in tied if other.declaration != claim.declaration)
            for other in dict.fromkeys(others):
                said = f'{resource} (also in configset "{other}")'
                if said not in self.of_set[claim.config_set]:
                    self.of_set[claim.config_set].append(said)
        names = ", ".join(sorted({f'"{claim.config_set}"' for claim in tied}))
        self.held[resource] = (
            f"ConfigSets {names} declare {resource} differently with equal priority:"
            " make them equal, or give one a higher spec.priority"
        )


def merge(config_sets: Iterable[ConfigSet]) -> Desired:
    """Return what a host shall be; `config_sets` are those that match it."""
    ordered = sorted(config_sets, key=lambda one: one.metadata.name)
    conflicts = _Conflicts()
    packages: dict[ResourceId, list[_Claim[Package]]] = defaultdict(list)
    files: dict[ResourceId, list[_Claim[File]]] = defaultdict(list)
    services: dict[ResourceId, list[_Claim[Service]]] = defaultdict(list)
    subscriptions: dict[ResourceId, dict[str, None]] = defaultdict(dict)
    for one in ordered:
        spec = one.spec
        for package in spec.packages:
            packages[resources.package_id(package.name)].append(_claim(one, package))
        for file in spec.files:
            files[resources.file_id(file.path)].append(_claim(one, _plain_file(file)))
        for service in spec.services:
            # Each set may have its own reasons to restart a service; that is no contradiction.
            subscriptions[resources.service_id(service)].update(dict.fromkeys(service.subscribe_files))
            plain_service = msgspec.structs.replace(service, subscribe_files=[])
            services[resources.service_id(service)].append(_claim(one, plain_service))

    def with_subscriptions(item: Item[Service]) -> Item[Service]:
        paths = [path.rstrip("/") or "/" for path in subscriptions[item.id]]
        return replace(item, declaration=msgspec.structs.replace(item.declaration, subscribe_files=paths))

    return Desired(
        packages=_decide(packages, conflicts),
        files=_decide(files, conflicts),
        services=tuple(with_subscriptions(item) for item in _decide(services, conflicts)),
        executions=_executions(ordered),
        conflicts={name: tuple(said) for name, said in conflicts.of_set.items()},
        held=conflicts.held,
    )


def _decide(claims: dict[ResourceId, list[_Claim[D]]], conflicts: _Conflicts) -> tuple[Item[D], ...]:
    """Return one item for each resource that the highest priority agrees on."""
    decided = []
    for resource, said in claims.items():
        if len(said) == 1:
            only = said[0]
            decided.append(Item(resource, only.declaration, (only.config_set,), only.observe))
            continue
        top = max(claim.priority for claim in said)
        tied = [claim for claim in said if claim.priority == top]
        chosen = tied[0].declaration
        if any(claim.declaration != chosen for claim in tied):
            conflicts.add(resource, tied)
            continue
        sources = tuple(dict.fromkeys(claim.config_set for claim in said if claim.declaration == chosen))
        # Where sets agree on what a resource shall be, one that wants it put back is enough.
        decided.append(Item(resource, chosen, sources, all(claim.observe for claim in tied)))
    return tuple(decided)


def _claim(config_set: ConfigSet, declaration: P) -> _Claim[P]:
    observe = (declaration.drift or config_set.spec.drift) == OBSERVE
    if declaration.drift:
        declaration = msgspec.structs.replace(declaration, drift="")
    return _Claim(config_set.metadata.name, config_set.spec.priority, declaration, observe)


def _executions(config_sets: Sequence[ConfigSet]) -> tuple[Item[Execution], ...]:
    found = {}
    for one in config_sets:
        for execution in one.spec.executions:
            resource = resources.exec_id(one.metadata.name, execution)
            found[resource] = Item(resource, execution, (one.metadata.name,))
    return tuple(found.values())


def _plain_file(file: File) -> File:
    """Return the declaration in one spelling, so that what means the same is equal."""
    path, ensure = file.path.rstrip("/") or "/", file.ensure or "file"
    if (path, ensure) == (file.path, file.ensure):
        return file
    return msgspec.structs.replace(file, path=path, ensure=ensure)
