"""Which hosts a series selects, and in which order; the order is the same each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.kube import selectors
from nodemanager.kube.selectors import LabelSelector
from nodemanager.kube.wording import listed, plural

CANARIES: Final = "canaries"
LAST: Final = "last"
NodeLabels = Mapping[str, Mapping[str, str]]
"""The labels of Kubernetes Nodes by name: a host and its Node have the same name."""
NO_NODES: Final[NodeLabels] = MappingProxyType({})


class HostGroup(NamedTuple):
    """Hosts whose work begins before that of the next group."""

    name: str
    hosts: tuple[str, ...]


class LeftOut(NamedTuple):
    """Hosts and Nodes that take no part because of a nodeSelector, although a user may expect them."""

    agentless: tuple[str, ...] = ()
    """Kubernetes Nodes that it selects and that are no hosts here."""
    nodeless: tuple[str, ...] = ()
    """Hosts that are selected but for it, and are no Kubernetes Node."""

    def words(self, most: int = 5) -> str:
        """Return the text for people; empty = there is none."""
        said = []
        if self.agentless:
            have = f"{plural(len(self.agentless), 'Kubernetes Node')} without an agent"
            said.append(f"{have}, left out: {listed(self.agentless, most)}")
        if self.nodeless:
            are = f"{plural(len(self.nodeless), 'host')} without a Kubernetes Node"
            said.append(f"{are}, left out: {listed(self.nodeless, most)}")
        return "; ".join(said)


class Members(NamedTuple):
    """The hosts of a series."""

    groups: tuple[HostGroup, ...]
    """The groups in their order; none is empty."""
    not_found: tuple[str, ...] = ()
    """Listed names for which there is no host."""
    left_out: LeftOut = LeftOut()

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, in their order."""
        return tuple(host for group in self.groups for host in group.hosts)


def members(spec: SeriesSpec, nodes: Iterable[ManagedNode], kubernetes: NodeLabels = NO_NODES) -> Members:
    """Return the hosts of a namespace that a series selects; a nodeSelector needs `nodes`, too."""
    by_name = {node.metadata.name: node for node in nodes}
    meant = [by_name[name] for name in _named(spec, by_name) if _is_meant(spec, by_name[name])]
    chosen, left_out = _by_node(spec, meant, by_name, kubernetes)
    canaries, others = _parted(chosen, spec.canaries)
    last, rest = _parted(others, spec.last)
    groups = [_group(CANARIES, canaries), *_grouped(spec, rest), _group(LAST, last)]
    return Members(
        tuple(group for group in groups if group.hosts),
        tuple(name for name in dict.fromkeys(spec.names) if name not in by_name),
        left_out,
    )


def _by_node(
    spec: SeriesSpec,
    meant: Sequence[ManagedNode],
    by_name: Mapping[str, ManagedNode],
    kubernetes: NodeLabels,
) -> tuple[Sequence[ManagedNode], LeftOut]:
    """Return the hosts whose Node is selected, and what is left out."""
    selector = spec.node_selector
    if selector is None:
        return meant, LeftOut()
    found = {name for name, labels in kubernetes.items() if selectors.matches(selector, labels)}
    named = found & set(spec.names) if spec.names else found
    return [node for node in meant if node.metadata.name in found], LeftOut(
        tuple(sorted(name for name in named if name not in by_name)),
        tuple(node.metadata.name for node in meant if node.metadata.name not in kubernetes),
    )


def _named(spec: SeriesSpec, by_name: dict[str, ManagedNode]) -> Sequence[str]:
    return sorted(set(spec.names) & set(by_name)) if spec.names else sorted(by_name)


def _is_meant(spec: SeriesSpec, node: ManagedNode) -> bool:
    return (spec.selector is None or _has(spec.selector, node)) and not _has(spec.exclude, node)


def _has(selector: LabelSelector | None, node: ManagedNode) -> bool:
    return selector is not None and selectors.matches(selector, node.metadata.labels)


def _parted(
    nodes: Iterable[ManagedNode], selector: LabelSelector | None
) -> tuple[list[ManagedNode], list[ManagedNode]]:
    """Return the selected hosts, and the others."""
    chosen: list[ManagedNode] = []
    others: list[ManagedNode] = []
    for node in nodes:
        (chosen if _has(selector, node) else others).append(node)
    return chosen, others


def _grouped(spec: SeriesSpec, nodes: Sequence[ManagedNode]) -> list[HostGroup]:
    if not spec.group_by:
        return [_group("", nodes)]
    found: dict[str, list[ManagedNode]] = {}
    for node in nodes:
        found.setdefault(node.metadata.labels.get(spec.group_by, ""), []).append(node)
    first = [value for value in dict.fromkeys(spec.order) if value in found]
    # No person would expect hosts without the label in the first zone.
    others = sorted((value for value in found if value not in first), key=lambda value: (value == "", value))
    return [_group(value, found[value]) for value in (*first, *others)]


def _group(name: str, nodes: Iterable[ManagedNode]) -> HostGroup:
    return HostGroup(name, tuple(node.metadata.name for node in nodes))
