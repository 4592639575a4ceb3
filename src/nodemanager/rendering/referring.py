"""Which Secrets and ConfigMaps declarations refer to on a host: their names may be templates, too."""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.plan.data import layers
from nodemanager.plan.templates import References, references
from nodemanager.rendering.renderer import Rendering


async def referenced(
    renderer: Rendering, config_sets: Sequence[ConfigSet], node: ManagedNode, of_tasks: Sequence[File] = ()
) -> References:
    """Return all names; one that cannot be told is an error of its own, and costs no other set its names.

    Layers of the host's data are included, whether or not a template reads them.
    `of_tasks` are files that are in no set.
    """
    data = references.visible(node)
    todo = [
        job
        for one in config_sets
        for job in references.jobs(one.spec.files, data, f"ConfigSet {one.metadata.name}", lax=one.spec.lax)
    ]
    todo += references.jobs(of_tasks, data, "a NodeTask")
    files = [*(file for one in config_sets for file in one.spec.files), *of_tasks]
    found = references.referenced(files, await renderer.render(todo) if todo else [])
    return references.with_layers(found, layers.layers(config_sets, node))
