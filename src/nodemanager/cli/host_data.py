"""The data of a host, gathered by somebody who may not read all of it: from an API, or from manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from nodemanager.agent.declared import default_rollout
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.api.common.configset import CONFIG_SETS, is_leaving
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.cli import kinds
from nodemanager.cli.manifests import manifest_folder
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.plan.data import layers, merging
from nodemanager.plan.data.merging import HostData
from nodemanager.plan.data.reading import DataError


@dataclass(frozen=True, slots=True)
class GatheredData:
    """The data of a host, as far as it can be read."""

    data: HostData
    unread: Sequence[str] = ()
    """What is missing in it, and why."""


async def from_api(client: Client, namespace: str, name: str) -> GatheredData:
    """Return what an API says of a host."""
    node = await kinds.managed_node(client, name, namespace, "show the data of")
    there = (await client.list(CONFIG_SETS, Selection(namespace))).items
    sets = [one for one in there if not is_leaving(one)]
    staged = StagedSets(
        lambda revision: client.get(CONFIG_SET_REVISIONS, revision, namespace),
        lambda: default_rollout.is_staged(client, namespace),
    )
    inputs = DeclaredInputs(tuple(await staged.choose(sets, node.metadata)))
    unread = [f"ConfigSet {one} is left out: {why}" for one, why in staged.waits.items()]
    found = layers.layers(inputs.config_sets, node)
    secrets, config_maps = {}, {}
    for layer in found:
        try:
            if layer.kind == SECRETS.kind:
                secrets[layer.name] = (await client.get(SECRETS, layer.name, namespace)).values
            elif layer.kind == CONFIG_MAPS.kind:
                config_maps[layer.name] = (await client.get(CONFIG_MAPS, layer.name, namespace)).values
        except (errors.NotFound, errors.Forbidden) as error:
            unread.append(f"{layer} is left out, and what it says is missing here: {error}")
    return _gathered(replace(inputs, secrets=secrets, config_maps=config_maps), node, unread)


def from_manifests(paths: Sequence[Path], name: str) -> GatheredData:
    """Return what manifests say of a host."""
    inputs = manifest_folder.load(paths)
    node = next((one for one in inputs.nodes if one.metadata.name == name), None)
    if node is None:
        there = ", ".join(sorted(one.metadata.name for one in inputs.nodes)) or "none"
        raise click.ClickException(
            f"cannot show the data of {name}: no manifest has a ManagedNode of this name; there are {there}"
        )
    return _gathered(inputs, manifest_folder.labelled(node), [])


def _gathered(inputs: DeclaredInputs, node: ManagedNode, unread: list[str]) -> GatheredData:
    """Return what layers say; those that are not there are left out."""
    known = {SECRETS.kind: inputs.secrets.keys(), CONFIG_MAPS.kind: inputs.config_maps.keys()}
    found = layers.layers(inputs.config_sets, node)
    there = [one for one in found if one.own is not None or one.name in known[one.kind]]
    if not unread:
        unread = [f"{one} is left out: nothing declares it" for one in found if one not in there]
    try:
        return GatheredData(merging.host_data(there, inputs.secrets, inputs.config_maps), unread)
    except DataError as error:
        raise click.ClickException(f"cannot show the data of {node.metadata.name}: {error}") from error
