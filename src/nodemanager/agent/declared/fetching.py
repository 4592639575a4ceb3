"""Reads all inputs of a host's wanted state once: for a command that looks and ends."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.agent.declared import default_rollout, known_sets
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.staged_sets import StagedSets
from nodemanager.api.common.configset import CONFIG_SETS, is_leaving
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
    page = await client.list(CONFIG_SETS, here)
    config_sets, unread = page.items, {one.key.name: "cannot be read" for one in page.malformed}
    nodes = (await client.list(MANAGED_NODES, here)).items
    inputs = DeclaredInputs(tuple(config_sets), tuple(nodes))
    node = inputs.node(identity)
    staged = StagedSets(
        lambda name: client.get(CONFIG_SET_REVISIONS, name, namespace),
        lambda: default_rollout.is_staged(client, namespace),
    )
    staying = [one for one in config_sets if not is_leaving(one)]
    inputs = replace(inputs, config_sets=tuple(await staged.choose(staying, node.metadata)))
    told = known_sets.told(config_sets, inputs.matching(node), node.metadata, unread)
    waits = {name: why.message for name, why in staged.waits.items()}
    told = replace(told, unsure={**told.unsure, **waits})
    needed = await referring.referenced(renderer, inputs.matching(node), node)
    secrets, config_maps = {}, {}
    for name in needed.secrets:
        try:
            secrets[name] = (await client.get(SECRETS, name, namespace)).values
        except UNREADABLE:
            continue  # the file that needs it reports that
    for name in needed.config_maps:
        try:
            config_maps[name] = (await client.get(CONFIG_MAPS, name, namespace)).values
        except UNREADABLE:
            continue
    return DeclaredInputs(inputs.config_sets, inputs.nodes, secrets, config_maps, told)
