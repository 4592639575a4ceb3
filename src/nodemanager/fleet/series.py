"""Which hosts a series means, and in which order they go; the same order whenever it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.kube import selectors
from nodemanager.kube.selectors import LabelSelector

CANARIES: Final = "canaries"
LAST: Final = "last"


class HostGroup(NamedTuple):
    """Hosts that go before the next group begins."""

    name: str
    hosts: tuple[str, ...]


class Members(NamedTuple):
    """The hosts of a series."""

    groups: tuple[HostGroup, ...]
    """In the order in which they go; none is empty."""
    not_found: tuple[str, ...] = ()
    """Names that are listed and that no host has."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, in the order in which they go."""
        return tuple(host for group in self.groups for host in group.hosts)


def members(spec: SeriesSpec, nodes: Iterable[ManagedNode]) -> Members:
    """Return the hosts of a namespace that a series means."""
    by_name = {node.metadata.name: node for node in nodes}
    chosen = [by_name[name] for name in _named(spec, by_name) if _is_meant(spec, by_name[name])]
    canaries, others = _parted(chosen, spec.canaries)
    last, rest = _parted(others, spec.last)
    groups = [_group(CANARIES, canaries), *_grouped(spec, rest), _group(LAST, last)]
    return Members(
        tuple(group for group in groups if group.hosts),
        tuple(name for name in dict.fromkeys(spec.names) if name not in by_name),
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
    """Return who is chosen, and who is not."""
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
    # Hosts without the label are nobody's idea of a first zone.
    others = sorted((value for value in found if value not in first), key=lambda value: (value == "", value))
    return [_group(value, found[value]) for value in (*first, *others)]


def _group(name: str, nodes: Iterable[ManagedNode]) -> HostGroup:
    return HostGroup(name, tuple(node.metadata.name for node in nodes))
