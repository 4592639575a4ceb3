"""All ConfigSets of a host become one Desired: equal ones merge, priority decides, a tie is a conflict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import msgspec

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.declarations import DRIFT_POLICIES, IN_TURN, OBSERVE, REPAIR
from nodemanager.plan.desired import D, Desired, Item
from nodemanager.plan.host_kinds import AnyKind
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.stages import KINDS, HostKinds


@dataclass(frozen=True, slots=True)
class _Claim(Generic[D]):
    """What one ConfigSet says about a resource."""

    config_set: str
    priority: int
    declaration: D
    """In normal form, without its drift policy: two sets that differ only in that do not conflict."""
    policy: str
    said: D
    """The declaration as it was written."""


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


def merge(config_sets: Iterable[ConfigSet], kinds: HostKinds = KINDS) -> Desired:
    """Return the wanted state of a host; `config_sets` are those that select it."""
    ordered = sorted(config_sets, key=lambda one: one.metadata.name)
    conflicts = _Conflicts()
    return Desired(
        items={kind.name: _merged(kind, ordered, conflicts) for kind in kinds},
        conflicts={name: tuple(said) for name, said in conflicts.of_set.items()},
        held=conflicts.held,
    )


def _merged(kind: AnyKind, config_sets: Sequence[ConfigSet], conflicts: _Conflicts) -> tuple[Item[Any], ...]:
    """Return one item for each resource that the highest priority agrees on."""
    declaring = kind.declaring
    claims: dict[ResourceId, list[_Claim[Any]]] = defaultdict(list)
    for one in config_sets:
        for declaration in getattr(one.spec, declaring.field):
            resource = declaring.identify(one.metadata.name, declaration)
            claims[resource].append(_claim(kind, one, declaration))
    decided: list[Item[Any]] = []
    for resource, said in claims.items():
        item = _decide(resource, said)
        if item is None:
            top = max(claim.priority for claim in said)
            conflicts.add(resource, [claim for claim in said if claim.priority == top])
            continue
        declaration = declaring.unite(item.declaration, [claim.said for claim in said])
        paths = tuple(declaring.subscriptions(declaration)) if declaring.subscriptions else ()
        if paths or declaration is not item.declaration:  # not so of most of a thousand files
            item = replace(item, declaration=declaration, subscribes=paths)
        decided.append(item)
    return tuple(decided)


def _decide(resource: ResourceId, said: Sequence[_Claim[D]]) -> Item[D] | None:
    """Return what the highest priority agrees on; None = it does not."""
    if len(said) == 1:
        only = said[0]
        return Item(resource, only.declaration, (only.config_set,), only.policy, _turns(only.policy, said))
    top = max(claim.priority for claim in said)
    tied = [claim for claim in said if claim.priority == top]
    chosen = tied[0].declaration
    if any(claim.declaration != chosen for claim in tied):
        return None
    sources = tuple(dict.fromkeys(claim.config_set for claim in said if claim.declaration == chosen))
    # If sets agree on a resource, one that wants it repaired is enough.
    policy = min((claim.policy for claim in tied), key=DRIFT_POLICIES.index)
    return Item(resource, chosen, sources, policy, _turns(policy, tied))


def _turns(policy: str, tied: Sequence[_Claim[D]]) -> tuple[str, ...]:
    """Return the sets whose turn allows a resource's repair."""
    if policy != IN_TURN:
        return ()
    return tuple(dict.fromkeys(claim.config_set for claim in tied if claim.policy == IN_TURN))


def _claim(kind: AnyKind, config_set: ConfigSet, declaration: Any) -> _Claim[Any]:
    plain, policy = kind.declaring.plain(declaration), REPAIR
    if kind.drift is not None:
        policy = declaration.drift or config_set.spec.drift
        if policy not in DRIFT_POLICIES:  # of a newer version: while in doubt, nothing is changed
            policy = OBSERVE
        plain = msgspec.structs.replace(plain, drift="") if plain.drift else plain
    name, priority = config_set.metadata.name, config_set.spec.priority
    return _Claim(name, priority, plain, policy, declaration)
