"""Which Secrets and ConfigMaps the templates of a ConfigSet need: only these are read and watched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nodemanager.api.declarations import File
from nodemanager.api.managednode import ManagedNode
from nodemanager.plan.templates.errors import TemplateError
from nodemanager.plan.templates.jobs import Job, Rendered
from nodemanager.plan.templates.shapes import Data, node_data


@dataclass(frozen=True, slots=True)
class References:
    """What one file, or several together, refer to; a name that cannot be told is an error of its own."""

    secrets: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    errors: tuple[TemplateError, ...] = ()


def jobs(files: Iterable[File], node: ManagedNode, owner: str = "") -> list[Job]:
    """Return what has to be rendered to tell which Secrets the files refer to.

    Only a file with a template needs any. An entry of secretRefs may itself be a template; it sees
    labels, status and name of its node, no Secret and no other node.
    """
    data = Data(node=node_data(node, secrets=None, config_maps=None))
    return [
        Job(entry, data, name=f"secretRefs[{place}] of {file.path}", owner=owner)
        for file in files
        if file.template
        for place, entry in enumerate(file.secret_refs)
    ]


def referenced(files: Iterable[File], rendered: Iterable[Rendered]) -> References:
    """Return all names that the files refer to, in the order of the files: later ones win.

    `rendered` is what became of the `jobs` of these files.
    """
    secrets: dict[str, None] = {}
    config_maps: dict[str, None] = {}
    errors: list[TemplateError] = []
    for file in files:
        if file.template:
            config_maps.update(dict.fromkeys(file.config_map_refs))
    for made in rendered:
        if isinstance(made, TemplateError):
            errors.append(made)
        elif name := made.strip():
            secrets[name] = None
    return References(tuple(secrets), tuple(config_maps), tuple(errors))
