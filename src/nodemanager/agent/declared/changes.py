"""Asks for a pass when something changes that is declared for this host, or that its templates read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nodemanager.agent.declared.declarations import Declarations
from nodemanager.agent.declared.desired_state import visible
from nodemanager.agent.requests import Requests
from nodemanager.api.common import choosing, matching
from nodemanager.api.common.configset import ConfigSet, is_leaving
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.common.node_conditions import AGENT_SILENT
from nodemanager.api.common.rollout import is_staged
from nodemanager.kube import conditions
from nodemanager.kube.objects import ObjectMeta
from nodemanager.runtime.cache import Change

OWN_STATUS_SECONDS: Final = 2.0
"""News in our own status, which templates read: usually written by us. Where two hosts have one name, they
would otherwise answer each other as fast as the network allows."""
TWIN_SECONDS: Final = 60.0
"""The same, once we know that there are two."""


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
        if host is None or any(one is not None and is_staged(one.spec.rollout) for one in (old, new)):
            if host is None or old is None or new is None or _wanted(old, host) != _wanted(new, host):
                self.requests.pass_soon()
            return
        if old and new and _says(old) == _says(new):
            return  # only its status: that is the operator's
        if any(one is not None and matching.matches(one, host.labels) for one in (old, new)):
            self.requests.pass_soon()

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


def _says(config_set: ConfigSet) -> tuple[object, ...]:
    """Return what of a set is not the operator's."""
    return config_set.spec, config_set.metadata.labels, is_leaving(config_set)


def _wanted(config_set: ConfigSet, host: ObjectMeta) -> tuple[object, ...]:
    """Return what of a set that is rolled out in stages matters to a host."""
    return choosing.chosen(config_set, host), config_set.spec.enforcement, is_leaving(config_set)


def _called_silent(node: ManagedNode) -> bool:
    """Tell whether the operator took our word back: of a host that was frozen nothing else has changed."""
    ready = conditions.get(node.status.conditions, conditions.READY)
    return ready is not None and ready.reason == AGENT_SILENT
