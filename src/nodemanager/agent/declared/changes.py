"""Asks for a pass when something changes that is declared for this host, or that its templates read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.declared.declarations import Declarations
from nodemanager.agent.declared.desired_state import visible
from nodemanager.agent.requests import SETTLE_SECONDS, Requests
from nodemanager.api.common import choosing, matching
from nodemanager.api.common.choosing import Content
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.node_conditions import AGENT_SILENT
from nodemanager.api.common.rollout import SCALE, is_staged
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.cache import Change

OWN_STATUS_SECONDS: Final = 2.0
"""News in our own status, which templates read: usually written by us. Where two hosts have one name, they
would otherwise answer each other as fast as the network allows."""
TWIN_SECONDS: Final = 60.0
"""The same, once we know that there are two."""
UNDECIDED_SECONDS: Final = 30.0
"""A new set in stages is for nobody until an operator has seen it; we say after so long that none has."""
SPREAD_SECONDS: Final = 2.0
"""All hosts of a stage hear at one moment that it is their turn, and each reads the whole revision."""


@dataclass(frozen=True, slots=True)
class DeclaredChanges:
    """Listens to the API."""

    declared: Declarations
    requests: Requests
    duplicated: Callable[[], bool]
    """Whether another machine reports under our name."""

    def start(self) -> None:
        """Listen to everything that may change what is wanted."""
        sources = self.declared.sources
        sources.config_sets.subscribe(self._on_config_set)
        sources.nodes.subscribe(self._on_node)
        sources.reachability.subscribe(self.requests.pass_soon)

    def _on_config_set(self, change: Change[ConfigSet]) -> None:
        old, new, host = change.old, change.new, self.declared.own
        if host is None:
            self.requests.pass_soon()
            return
        if any(one is not None and is_staged(one.spec.rollout) for one in (old, new)):
            self._on_staged_set(old, new, host)
            return
        if old and new and old.spec == new.spec and old.metadata.labels == new.metadata.labels:
            return  # only its status: that is the operator's
        if any(one is not None and matching.matches(one, host.labels) for one in (old, new)):
            self.requests.pass_soon()

    def _on_staged_set(self, old: ConfigSet | None, new: ConfigSet | None, host: ObjectMeta) -> None:
        """Ask for a pass if something else is for this host; until it is decided, it keeps what it has."""
        one = new or old
        kept = self.declared.staged.kept_of(one) if one is not None else None
        was, wants = _wanted(old, kept, host), _wanted(new, kept, host)
        if was == wants or (wants is _HELD and kept is not None):
            return
        if wants is _HELD:
            self.requests.pass_soon(UNDECIDED_SECONDS)
        else:
            self.requests.pass_soon(SETTLE_SECONDS + _spread(new, host))

    def _on_node(self, change: Change[ManagedNode]) -> None:
        old, new, desired_states = change.old, change.new, self.declared.desired_states
        own = change.key == self.requests.key
        if old is None or new is None:
            concerned = own or desired_states.reads_peers
        elif own:
            concerned = (
                old.spec != new.spec
                or old.metadata.labels != new.metadata.labels
                or old.metadata.annotations != new.metadata.annotations
            )
            if _called_silent(new):
                self.requests.status_soon()
            news = desired_states.templated and visible(old, own=True) != visible(new, own=True)
            if news and not concerned:
                self.requests.pass_soon(TWIN_SECONDS if self.duplicated() else OWN_STATUS_SECONDS)
        else:
            concerned = desired_states.reads_peers and visible(old) != visible(new)
        if concerned:
            self.requests.pass_soon()


_HELD: Final = object()


def _wanted(config_set: ConfigSet | None, kept: ConfigSet | None, host: ObjectMeta) -> object:
    """Return what of a set is for a host that has `kept` of it; None = nothing."""
    if config_set is None:
        return None
    choice = choosing.for_host(config_set, kept, host)
    if choice.content is Content.HELD:
        return _HELD
    meta, spec, revision = config_set.metadata, config_set.spec, choice.revision
    if choice.content is Content.SPEC:
        return (spec, meta.labels) if matching.matches(config_set, host.labels) else None
    if revision is None:
        return None
    generation = meta.generation if choosing.is_newest(config_set, revision) else 0
    return revision, generation, spec.enforcement


def _spread(config_set: ConfigSet | None, host: ObjectMeta) -> float:
    """Return how long to wait with a change for which others have their turn as well; none to return."""
    status = config_set.status.rollout if config_set is not None else None
    if status is None or status.next is None or not choosing.has_turn(status, host):
        return 0.0
    if choosing.is_canary(status, host.labels):
        return 0.0
    return SPREAD_SECONDS * choosing.position(host.uid, status.next.digest) / SCALE


def _called_silent(node: ManagedNode) -> bool:
    """Tell whether the operator took our word back: of a host that was frozen nothing else has changed."""
    ready = conditions.get(node.status.conditions, conditions.READY)
    return ready is not None and ready.reason == AGENT_SILENT
