"""Asks for a pass when declarations for this host change, or objects that its templates read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.declared.declarations import Declarations
from nodemanager.agent.declared.desired_state import visible
from nodemanager.agent.requests import SETTLE_SECONDS, Requests
from nodemanager.api.common import choosing, matching
from nodemanager.api.common.choosing import ContentSource, Peers
from nodemanager.api.common.configset import ConfigSet, is_leaving
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.node_conditions import AGENT_SILENT
from nodemanager.api.common.rollout import SCALE
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.cache import Change

OWN_STATUS_SECONDS: Final = 2.0
"""How long to wait after a change of our own status, which templates read and which we usually write. Else
two hosts of one name would answer each other as fast as the network allows."""
TWIN_SECONDS: Final = 60.0
"""The same, once we know that two hosts have our name."""
UNDECIDED_SECONDS: Final = 30.0
"""After so long, a new staged set that no operator has decided about is reported; until then it is for no
host."""
FOLLOWING_SECONDS: Final = 60.0
"""How long to wait when a default is made: every host then reads the revisions of all its sets at once."""
SPREAD_SECONDS: Final = 2.0
"""How long to spread the reads: all hosts of a stage hear of their turn at once, and each reads the whole
revision."""


@dataclass(frozen=True, slots=True)
class DeclaredChanges:
    """Listens to changes in the API."""

    declared: Declarations
    requests: Requests
    duplicated: Callable[[], bool]
    """Whether another machine reports under our name."""

    def start(self) -> None:
        """Listen to everything that may change the wanted state."""
        sources = self.declared.sources
        sources.config_sets.subscribe(self._on_config_set)
        sources.nodes.subscribe(self._on_node)
        sources.reachability.subscribe(self.requests.pass_soon)

    def _on_config_set(self, change: Change[ConfigSet]) -> None:
        old, new, host = change.old, change.new, self.declared.own
        known = self.declared.known_sets
        brake = known is not None and known.heard(old, new)  # whichever host it is for
        if host is None or brake:
            self.requests.pass_soon()
            return
        if any(one is not None and choosing.in_stages(one) for one in (old, new)):
            self._on_staged_set(old, new, host)
            return
        if old and new and _says(old) == _says(new):
            return  # only its status changed, which the operator writes
        if any(one is not None and matching.matches(one, host.labels) for one in (old, new)):
            # Where others follow a default, this set will do so in a moment; only if it does not, the API
            # must be asked.
            follows = new is not None and new.spec.rollout is None and self.declared.staged.has_default
            self.requests.pass_soon(UNDECIDED_SECONDS if follows else SETTLE_SECONDS)

    def _on_staged_set(self, old: ConfigSet | None, new: ConfigSet | None, host: ObjectMeta) -> None:
        """Ask for a pass if other content is for this host; until that is decided, it keeps what it has."""
        one = new or old
        kept = self.declared.staged.kept_of(one) if one is not None else None
        peers = self._peers(old, new)
        if any(self._lags(other, host, peers) for other in _members(old, new, peers)):
            self.requests.pass_soon(SETTLE_SECONDS + _spread(new, host))
        was, wants = _wanted(old, kept, host, peers), _wanted(new, kept, host, peers)
        if was == wants or (wants is _HELD and kept is not None):
            return
        if wants is _HELD:
            self.requests.pass_soon(UNDECIDED_SECONDS)
        elif old and new and kept and _only_follows(old, new, kept):
            self.requests.pass_soon(FOLLOWING_SECONDS * choosing.position(host.uid, "") / SCALE)
        else:
            self.requests.pass_soon(SETTLE_SECONDS + _spread(new, host))

    def _peers(self, *sets: ConfigSet | None) -> Peers:
        """Return all sets if one of these moves together with others."""
        if not any(one is not None and choosing.is_grouped(one) for one in sets):
            return choosing.ALONE
        return choosing.by_name(self.declared.sources.config_sets.values())

    def _lags(self, config_set: ConfigSet, host: ObjectMeta, peers: Peers) -> bool:
        """Tell whether a revision of a set is for this host that it does not have."""
        if not choosing.in_stages(config_set):
            return False
        kept = self.declared.staged.kept_of(config_set)
        choice = choosing.for_host(config_set, kept, host, peers)
        if choice.content is not ContentSource.REVISION:
            return False
        has = choosing.applied(kept).digest if kept is not None else ""
        return has != (choice.revision.digest if choice.revision is not None else "")

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


def _members(old: ConfigSet | None, new: ConfigSet | None, peers: Peers) -> Iterable[ConfigSet]:
    """Return the sets that move with a set: their status decides about them, too."""
    known = [choosing.members_of(one, peers) for one in (old, new) if one is not None]
    return {one.metadata.name: one for each in known for one in each}.values()


def _wanted(config_set: ConfigSet | None, kept: ConfigSet | None, host: ObjectMeta, peers: Peers) -> object:
    """Return the content of a set for a host that has `kept` of it; None = none."""
    if config_set is None or is_leaving(config_set):
        return None
    choice = choosing.for_host(config_set, kept, host, peers)
    if choice.content is ContentSource.HELD:
        return _HELD
    meta, spec, revision = config_set.metadata, config_set.spec, choice.revision
    if choice.content is ContentSource.SPEC:
        return (spec, meta.labels) if matching.matches(config_set, host.labels) else None
    if revision is None:
        return None
    generation = meta.generation if choosing.is_newest(config_set, revision) else 0
    return revision, generation, spec.enforcement


def _only_follows(old: ConfigSet, new: ConfigSet, kept: ConfigSet) -> bool:
    """Tell whether a set begins to follow the default of its namespace, while its content stays."""
    begins = new.spec.rollout is None and choosing.in_stages(new) and not choosing.in_stages(old)
    return begins and choosing.is_for_all(new) and choosing.has_same(new, kept)


def _spread(config_set: ConfigSet | None, host: ObjectMeta) -> float:
    """Return how long to wait with a change that others may take at the same time; no wait for a return."""
    status = config_set.status.rollout if config_set is not None else None
    if status is None or status.next is None or not choosing.has_turn(status, host):
        return 0.0
    if choosing.is_canary(status, host.labels):
        return 0.0
    return SPREAD_SECONDS * choosing.place(status, host) / SCALE


def _says(config_set: ConfigSet) -> tuple[object, ...]:
    """Return the part of a set that the operator does not write."""
    return config_set.spec, config_set.metadata.labels, is_leaving(config_set)


def _called_silent(node: ManagedNode) -> bool:
    """Tell whether the operator marked us as silent: for a host that was frozen, nothing else changes."""
    ready = conditions.get(node.status.conditions, conditions.READY)
    return ready is not None and ready.reason == AGENT_SILENT
