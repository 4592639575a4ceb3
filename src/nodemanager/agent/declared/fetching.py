"""Everything that is wanted of a host, asked for once: for a command that looks and goes."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.host.inventory.identity import Identity
from nodemanager.kube import errors
from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.rendering import referring
from nodemanager.rendering.renderer import Rendering

UNREADABLE = (errors.NotFound, errors.Forbidden)


async def fetch(client: Client, namespace: str, identity: Identity, renderer: Rendering) -> DeclaredInputs:
    """Return what an API declares for a host, with the Secrets and ConfigMaps that it refers to."""
    here = Selection(namespace)
    config_sets = (await client.list(CONFIG_SETS, here)).items
    nodes = (await client.list(MANAGED_NODES, here)).items
    inputs = DeclaredInputs(tuple(config_sets), tuple(nodes))
    node = inputs.node(identity)
    staged = StagedSets(lambda name: client.get(CONFIG_SET_REVISIONS, name, namespace))
    inputs = replace(inputs, config_sets=tuple(await staged.choose(config_sets, node.metadata)))
    needed = await referring.referenced(renderer, inputs.matching(node), node)
    secrets, config_maps = {}, {}
    for name in needed.secrets:
        try:
            secrets[name] = (await client.get(SECRETS, name, namespace)).values
        except UNREADABLE:
            continue  # the file that needs it says so
    for name in needed.config_maps:
        try:
            config_maps[name] = (await client.get(CONFIG_MAPS, name, namespace)).values
        except UNREADABLE:
            continue
    return DeclaredInputs(inputs.config_sets, inputs.nodes, secrets, config_maps)
