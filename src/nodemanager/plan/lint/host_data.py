"""What is wrong with data of hosts: layers that cannot be used, and those that hardly fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.plan.data import layers, merging
from nodemanager.plan.data.layers import Layer
from nodemanager.plan.data.merging import Path, Stored
from nodemanager.plan.data.reading import DataError
from nodemanager.plan.lint.findings import Finding, Severity, Step


def findings(
    config_sets: Sequence[ConfigSet], nodes: Sequence[ManagedNode], secrets: Stored, config_maps: Stored
) -> list[Finding]:
    """Return all findings, each once; missing layers are reported by the check of references."""
    known = {SECRETS.kind: secrets.keys(), CONFIG_MAPS.kind: config_maps.keys()}
    groups = [[layer] for one in config_sets for _, layer in layers.of_set(one)]
    groups += [layers.layers(config_sets, node) for node in nodes]
    found: dict[Finding, None] = {}
    for group in groups:
        there = [one for one in group if one.own is not None or one.name in known[one.kind]]
        try:
            data = merging.host_data(there, secrets, config_maps)
        except DataError as error:
            found[_finding(error.layer, (), error.why, "error")] = None
            continue
        for clash in data.clashes:
            found[_finding(clash.winner, clash.path, str(clash), "warning")] = None
    return list(found)


def references(config_set: ConfigSet) -> Iterator[tuple[tuple[Step, ...], Layer]]:
    """Yield the layers that a set refers to, with the way to each."""
    for place, entry in enumerate(config_set.spec.data_from):
        for field, kind, ref in (
            ("configMapRef", CONFIG_MAPS.kind, entry.config_map_ref),
            ("secretRef", SECRETS.kind, entry.secret_ref),
        ):
            if ref is not None:
                yield ("spec", "dataFrom", place, field, "name"), Layer(kind, ref.name)


def _finding(layer: Layer, path: Path, message: str, severity: Severity) -> Finding:
    where: tuple[Step, ...] = ("data",) if layer.own is None else ("spec", "data", *path)
    return Finding("data", severity, layer.kind, layer.name, where, message)
