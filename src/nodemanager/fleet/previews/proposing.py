"""The proposal: the ConfigSets that would change, and the hosts that this concerns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain, zip_longest
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common import configsetrevision, matching, set_reports
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetpreview import ProposedSet
from nodemanager.api.common.managednode import LABEL_OS, ManagedNode
from nodemanager.api.common.rollout import HISTORY_LIMIT

SAMPLE: Final = 20
"""How many hosts are asked unless the user wants another number."""


class SetFate(StrEnum):
    """What would happen to a ConfigSet."""

    NEW = "new"
    CHANGED = "changed"
    REMOVED = "removed"


class Proposal(NamedTuple):
    """The changes that are proposed."""

    sets: tuple[ConfigSet, ...]
    """The sets as they would be."""
    fates: Mapping[str, SetFate]
    before: tuple[ConfigSet, ...]
    """The sets of these names as they are."""

    @property
    def removed(self) -> list[str]:
        """Sets that would be deleted."""
        return [name for name, fate in self.fates.items() if fate is SetFate.REMOVED]

    def contents(self) -> list[ProposedSet]:
        """Return the sets as they are sent."""
        return [
            ProposedSet(
                name=one.metadata.name,
                labels=one.metadata.labels,
                content=configsetrevision.content_of(one.spec),
            )
            for one in self.sets
        ]


def propose(wanted: Iterable[ConfigSet], known: Iterable[ConfigSet], *, prune: bool = False) -> Proposal:
    """Return what is different from what is `known`; with `prune`, what nobody wants would be deleted.

    What others have made, such as the operator of a maintenance, stays.
    """
    there = {one.metadata.name: one for one in known}
    named = {one.metadata.name: _labelled(one, there.get(one.metadata.name)) for one in wanted}
    fates: dict[str, SetFate] = {}
    for name, one in named.items():
        if name not in there:
            fates[name] = SetFate.NEW
        elif _said(one) != _said(there[name]):
            fates[name] = SetFate.CHANGED
    if prune:
        own = (name for name, one in there.items() if not one.metadata.owner_references)
        fates |= {name: SetFate.REMOVED for name in own if name not in named}
    sets = tuple(one for name, one in named.items() if name in fates)
    return Proposal(sets, fates, tuple(there[name] for name in fates if name in there))


def _labelled(wanted: ConfigSet, known: ConfigSet | None) -> ConfigSet:
    """Return a set with the labels that GitOps tools put on it, because they will do so again."""
    theirs = known.metadata.labels if known is not None else {}
    added = {label: value for label, value in theirs.items() if matching.is_of_gitops(label)}
    meta = msgspec.structs.replace(wanted.metadata, labels={**added, **wanted.metadata.labels})
    return msgspec.structs.replace(wanted, metadata=meta)


def _said(config_set: ConfigSet) -> tuple[object, ...]:
    """Return what of a set matters to hosts; decoded, so that defaults make no difference."""
    spec = msgspec.structs.replace(
        config_set.spec, rollout=None, enforcement=None, revision_history_limit=HISTORY_LIMIT
    )
    return config_set.metadata.labels, spec


def concerned(proposal: Proposal, hosts: Iterable[ManagedNode]) -> list[ManagedNode]:
    """Return the hosts that would get one of the sets, or have one now."""
    return [host for host in hosts if any(_ways(proposal, host))]


def _ways(proposal: Proposal, host: ManagedNode) -> tuple[tuple[str, ...], ...]:
    """Return which of the sets a host would get, has, and reports: a reported revision may be older."""
    labels = host.metadata.labels
    then, now = (
        tuple(one.metadata.name for one in sets if matching.matches(one, labels))
        for sets in (proposal.sets, proposal.before)
    )
    return then, now, tuple(name for name in proposal.fates if set_reports.report_of(host, name) is not None)


def sample(proposal: Proposal, hosts: Sequence[ManagedNode], count: int) -> list[ManagedNode]:
    """Return some hosts: first one of each kind, then a second one of each. The result is always the same.

    Hosts are of one kind if they have the same of these sets and the same operating system.
    """
    kinds: dict[object, list[ManagedNode]] = {}
    for host in sorted(hosts, key=_place):
        kinds.setdefault((_ways(proposal, host), host.metadata.labels.get(LABEL_OS)), []).append(host)
    rounds = zip_longest(*sorted(kinds.values(), key=len))
    return [host for host in chain.from_iterable(rounds) if host is not None][:count]


def _place(host: ManagedNode) -> tuple[bytes, str]:
    meta = host.metadata
    return hashlib.sha256(meta.uid.encode()).digest(), meta.name
