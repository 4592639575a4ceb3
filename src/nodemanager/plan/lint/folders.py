"""Mistakes that show only in several objects together, as in a folder of manifests or a namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from nodemanager.api import kinds
from nodemanager.api.common import matching
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.plan import merge, resources, templates
from nodemanager.plan.lint import host_data
from nodemanager.plan.lint.config_sets import finding
from nodemanager.plan.lint.findings import Finding, Step
from nodemanager.plan.stages import KINDS


@dataclass(frozen=True, slots=True)
class Together:
    """Objects that belong together."""

    config_sets: Sequence[ConfigSet] = ()
    nodes: Sequence[ManagedNode] = ()
    """The hosts that are looked at."""
    secrets: AbstractSet[str] = frozenset()
    config_maps: AbstractSet[str] = frozenset()
    names: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    """The names of objects, by kind."""


def findings(given: Together) -> Iterator[Finding]:
    """Yield everything that is wrong between the objects."""
    paths = {resources.file_id(file.path) for one in given.config_sets for file in one.spec.files}
    for one in given.config_sets:
        yield from _subscriptions(one, paths)
        yield from _references(one, given)
        yield from _notified(one, given)
    yield from _conflicts(given)


def _subscriptions(one: ConfigSet, paths: AbstractSet[resources.ResourceId]) -> Iterator[Finding]:
    for kind in KINDS:
        if kind.declaring.subscriptions is None:
            continue
        for place, declaration in enumerate(getattr(one.spec, kind.declaring.field)):
            for number, path in enumerate(kind.declaring.subscriptions(declaration)):
                if resources.file_id(path) not in paths:
                    where = ("spec", kind.declaring.field, place, "subscribe_files", number)
                    message = f"no ConfigSet here declares {path}; declare it, or correct it"
                    yield finding(one, "missing-reference", where, message, "error")


def _references(one: ConfigSet, given: Together) -> Iterator[Finding]:
    """Yield names that are literally in the manifest; names from templates are reported for each host."""
    for place, file in enumerate(one.spec.files):
        if not file.template:
            continue
        for name, refs, known, kind in (
            ("secretRefs", file.secret_refs, given.secrets, "Secret"),
            ("configMapRefs", file.config_map_refs, given.config_maps, "ConfigMap"),
        ):
            for number, ref in enumerate(refs):
                if ref not in known and templates.is_literal(ref):
                    where: tuple[Step, ...] = ("spec", "files", place, name, number)
                    yield finding(
                        one, "missing-reference", where, f"{file.path}: nothing here declares {kind} {ref}"
                    )
    for way, layer in host_data.references(one):
        if layer.name not in (given.secrets if layer.secret else given.config_maps):
            yield finding(one, "missing-reference", way, f"nothing here declares {layer}")


def _notified(one: ConfigSet, given: Together) -> Iterator[Finding]:
    for place, told in enumerate(one.spec.notifies):
        if kinds.named(told.api_version, told.kind) is None or not told.name or told.namespace:
            continue
        if told.name not in given.names.get(told.kind, ()):
            message = f"nothing here declares {told.kind} {told.name}"
            yield finding(one, "missing-reference", ("spec", "notifies", place, "name"), message)


def _conflicts(given: Together) -> Iterator[Finding]:
    """Yield every resource that two sets contend for, once: on the first host that gets both.

    Where no host is known, any might.
    """
    if given.nodes:
        groups = {
            f"on host {node.metadata.name}": [
                one for one in given.config_sets if matching.matches(one, node.metadata.labels)
            ]
            for node in given.nodes
        }
    else:
        groups = {"on every host that gets both": list(given.config_sets)}
    told: set[object] = set()
    for where, sets in groups.items():
        for resource, why in merge.merge(sets).held.items():
            if resource in told:
                continue
            told.add(resource)
            one, path = next(_declaring(sets, resource))
            yield finding(one, "conflict", path, f"{where}, {why}", "error" if given.nodes else "warning")


def _declaring(
    sets: Sequence[ConfigSet], resource: resources.ResourceId
) -> Iterator[tuple[ConfigSet, tuple[Step, ...]]]:
    for one in sets:
        for kind in KINDS:
            for place, declaration in enumerate(getattr(one.spec, kind.declaring.field)):
                if kind.declaring.identify(one.metadata.name, declaration) == resource:
                    yield one, ("spec", kind.declaring.field, place)
