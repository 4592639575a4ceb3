"""Which Secrets and ConfigMaps the files of a ConfigSet need: only these are read and watched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.kube.core import CONFIG_MAPS, SECRETS
from nodemanager.kube.object_names import is_object_name
from nodemanager.plan.data.layers import Layer, names
from nodemanager.plan.templates.errors import TemplateError
from nodemanager.plan.templates.jobs import Job, Rendered
from nodemanager.plan.templates.shapes import Data, node_data


@dataclass(frozen=True, slots=True)
class References:
    """The references of one file, or of several together; an unreadable name is an error of its own."""

    secrets: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    errors: tuple[TemplateError, ...] = ()


def visible(node: ManagedNode) -> Data:
    """Return what an entry of secretRefs, which may itself be a template, sees: its node, and no Secret.

    It is the same for all files of a host, and worth being made once: a status is long.
    """
    return Data(node=node_data(node, secrets=None, config_maps=None))


def refers(file: File) -> bool:
    """Tell whether the content of a file may depend on more than its declaration."""
    return bool(file.template) or file.content_from is not None


def jobs(files: Iterable[File], data: Data, owner: str = "", *, lax: bool = False) -> list[Job]:
    """Return what has to be rendered to tell which Secrets the files refer to.

    `data` is what is `visible` of the host; whether a missing key is an empty text, `lax` says.
    """
    return [Job(entry, data, name=where, owner=owner, lax=lax) for where, entry in _entries(files)]


def _entries(files: Iterable[File]) -> Iterator[tuple[str, str]]:
    """Yield all names of Secrets that matter, with what an error calls them."""
    for file in files:
        if file.template:
            for place, entry in enumerate(file.secret_refs):
                yield f"secretRefs[{place}] of {file.path}", entry
        elif file.content_from is not None and file.content_from.secret_key_ref is not None:
            yield f"contentFrom.secretKeyRef.name of {file.path}", file.content_from.secret_key_ref.name


def _config_maps(file: File) -> Iterator[tuple[str, str]]:
    """Yield all names of ConfigMaps that matter, with what an error calls them."""
    if file.template:
        for place, name in enumerate(file.config_map_refs):
            yield f"configMapRefs[{place}] of {file.path}", name
    elif file.content_from is not None and file.content_from.config_map_key_ref is not None:
        yield f"contentFrom.configMapKeyRef.name of {file.path}", file.content_from.config_map_key_ref.name


def referenced(files: Sequence[File], rendered: Iterable[Rendered]) -> References:
    """Return all names that the files refer to, in the order of the files: later ones win.

    `rendered` is what became of the `jobs` of these files.
    """
    secrets: dict[str, None] = {}
    config_maps: dict[str, None] = {}
    errors: list[TemplateError] = []
    for file in files:
        for where, name in _config_maps(file):
            if is_object_name(name):
                config_maps[name] = None
            else:
                errors.append(_unfit(where, "ConfigMap"))
    for (where, entry), made in zip(_entries(files), rendered, strict=True):
        if isinstance(made, TemplateError):
            errors.append(made)
        elif is_object_name(name := made.strip()):
            secrets[name] = None
        elif name or not entry:  # a template may say that this host needs none
            errors.append(_unfit(where, "Secret"))
    return References(tuple(secrets), tuple(config_maps), tuple(errors))


def with_layers(found: References, layers: Sequence[Layer]) -> References:
    """Return the same with what the data of a host comes from."""
    if not layers:
        return found
    secrets, config_maps = (names(layers, kind) for kind in (SECRETS.kind, CONFIG_MAPS.kind))
    return replace(
        found,
        secrets=tuple(dict.fromkeys((*found.secrets, *filter(is_object_name, secrets)))),
        config_maps=tuple(dict.fromkeys((*found.config_maps, *filter(is_object_name, config_maps)))),
    )


def _unfit(where: str, kind: str) -> TemplateError:
    """Return why a reference is not followed: in a role, a path or a selector it could mean much more."""
    return TemplateError(where, f"no {kind} can be called so: name one, or remove the entry")
