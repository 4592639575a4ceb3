"""Which revision of a ConfigSet is for a host now: agents, operator and people ask the same function.

A host decides by itself, from what the operator has published in `status.rollout`, so it needs nobody at the
time, and what is published has the same size for any number of hosts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from nodemanager.api.common import matching
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.rollout import SCALE, STAGED, RevisionRef, Rollout, RolloutStatus, is_staged
from nodemanager.kube import selectors, times
from nodemanager.kube.objects import ObjectMeta


class Content(StrEnum):
    """Where a host takes the content of a set from."""

    SPEC = "spec"
    """The spec of the set, as it is."""
    REVISION = "revision"
    """A revision."""
    HELD = "held"
    """What the host has; if it has nothing, a revision."""


class Choice(NamedTuple):
    """What of a set is for a host."""

    content: Content
    revision: RevisionRef | None = None
    """None = nothing."""


class Wait(NamedTuple):
    """Why a host does not have what it shall have of a set."""

    code: str
    """A reason of `node_conditions`."""
    message: str
    bare: bool
    """It has nothing of the set meanwhile."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def position(uid: str, digest: str) -> int:
    """Return where a host stands in the order in which hosts take a change: anew for every change."""
    found = int.from_bytes(hashlib.sha256(f"{uid}/{digest}".encode()).digest()[:8])
    return found * SCALE >> 64


def takes_part(status: RolloutStatus, host: ObjectMeta) -> bool:
    """Tell whether a host was there when the rollout began; later ones take what is proven."""
    made, began = times.parse(host.creation_timestamp), times.parse(status.started_at)
    return made is None or began is None or made <= began


def is_canary(status: RolloutStatus, labels: Mapping[str, str]) -> bool:
    """Tell whether a host is one of those that go first; a selector that says nothing chooses none."""
    wanted = status.canary
    if wanted is None or not (wanted.match_labels or wanted.match_expressions):
        return False
    return selectors.matches(wanted, labels)


def is_meant(revision: RevisionRef | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a revision is for hosts with these labels."""
    return revision is not None and matching.chooses(revision.labels, revision.node_selector, labels)


def has_turn(status: RolloutStatus, host: ObjectMeta) -> bool:
    """Tell whether a host shall have the next revision."""
    if status.next is None or not takes_part(status, host):
        return False
    return is_canary(status, host.labels) or position(host.uid, status.next.digest) < status.threshold


def chosen(config_set: ConfigSet, host: ObjectMeta) -> Choice:
    """Return what of a set is for a host, by its ManagedNode, whatever its labels say."""
    if not is_staged(config_set.spec.rollout):
        return Choice(Content.SPEC)
    status = config_set.status.rollout
    if status is None:
        return Choice(Content.HELD)
    if status.observed_generation < config_set.metadata.generation:
        # Nobody has decided about it yet: what was decided about may be older than what hosts have.
        return Choice(Content.HELD, status.stable)
    return Choice(Content.REVISION, status.next if has_turn(status, host) else status.stable)


def for_host(config_set: ConfigSet, kept: ConfigSet | None, host: ObjectMeta) -> Choice:
    """Return what of a set is for a host that has `kept` of it; only a revision that is meant for it.

    HELD is what it has. If that is nothing, the set is for it, and nobody has decided about it yet.
    """
    choice = chosen(config_set, host)
    if choice.content is Content.SPEC or (choice.content is Content.HELD and kept is not None):
        return choice
    if is_meant(choice.revision, host.labels):
        return Choice(Content.REVISION, choice.revision)
    if choice.content is Content.HELD and choice.revision is None:
        waits = matching.matches(config_set, host.labels)
    else:
        waits = kept is not None and may_be_ahead(config_set, kept, choice)
    return Choice(Content.HELD if waits else Content.REVISION)


def may_be_ahead(config_set: ConfigSet, kept: ConfigSet, choice: Choice) -> bool:
    """Tell whether what is stable may be older than what a host has.

    It took that when changes still reached all hosts at once, maybe while no operator was there to see it.
    """
    status = config_set.status.rollout
    if status is None or applied(kept).revision or (status.next is None and status.refused is None):
        return False
    return choice.revision == status.stable


def is_newest(config_set: ConfigSet, revision: RevisionRef) -> bool:
    """Tell whether a revision is what a set says now."""
    status, meta = config_set.status.rollout, config_set.metadata
    return status is not None and (status.current, status.observed_generation) == (
        revision.name,
        meta.generation,
    )


def in_force(
    config_set: ConfigSet, revision: RevisionRef, spec: ConfigSetSpec, written: ObjectMeta
) -> ConfigSet:
    """Return a set as a host has it that has a revision of it, which says `spec` and was `written` so.

    It has the labels and the generation of the revision, and says by itself which one it is (`applied`).
    """
    meta = config_set.metadata
    generation = meta.generation if is_newest(config_set, revision) else written.generation
    published = RolloutStatus(observed_generation=generation, current=revision.name, stable=revision)
    return ConfigSet(
        metadata=msgspec.structs.replace(
            meta, labels=revision.labels, generation=generation, resource_version=written.resource_version
        ),
        spec=msgspec.structs.replace(
            spec, rollout=Rollout(strategy=STAGED), enforcement=config_set.spec.enforcement
        ),
        status=ConfigSetStatus(rollout=published),
    )


def applied(config_set: ConfigSet) -> RevisionRef:
    """Return which revision a set is that a host has; number 0 = it is not rolled out in stages."""
    status = config_set.status.rollout if is_staged(config_set.spec.rollout) else None
    return (status.stable if status else None) or RevisionRef()
