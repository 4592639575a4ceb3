"""What files shall contain: literal text, or templates filled with what the host may know."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from nodemanager.agent.world import World
from nodemanager.api.declarations import File
from nodemanager.api.managednode import ManagedNode
from nodemanager.plan import templates
from nodemanager.plan.desired import Content, Contents, Desired, Failure, encoded
from nodemanager.plan.templates import Data, RenderCache, TemplateError

T = TypeVar("T", str, bytes)


@dataclass(slots=True)
class Contenter:
    """Makes the contents of files; renders again only what has other inputs than before."""

    cache: RenderCache = field(default_factory=RenderCache)
    secret_cache: RenderCache = field(default_factory=RenderCache)
    """What was made of Secrets: apart, so that it can be forgotten with them."""

    def make(self, desired: Desired, world: World, node: ManagedNode) -> Contents:
        """Return the content of every file, or why it cannot be had."""
        if world.withheld:
            self.secret_cache.clear()
        plain: list[Data] = []  # made for the first template that needs no Secret, used for all of them
        made: dict[str, Content | Failure] = {}
        for item in desired.files:
            if item.declaration.ensure == "file":
                made[item.declaration.path] = self._one(item.declaration, world, node, plain)
        return made

    def _one(self, file: File, world: World, node: ManagedNode, plain: list[Data]) -> Content | Failure:
        if not file.template:
            return _content(file.content, secret=False)
        needed = templates.referenced([file], node)
        if needed.errors:
            return Failure(str(needed.errors[0]))
        for kind, names, known in (
            ("Secret", needed.secrets, world.secrets),
            ("ConfigMap", needed.config_maps, world.config_maps),
        ):
            missing = next((name for name in names if name not in known), None)
            if missing is not None and kind == "Secret" and world.withheld:
                return Failure(f"cannot render {file.path}: Secret {missing} is not used: {world.withheld}")
            if missing is not None:
                return Failure(
                    f"cannot render {file.path}: {kind} {missing} does not exist, or this host may not read"
                    f" it; create it in the namespace of the ConfigSet, or correct {_field(kind)}"
                )
        try:
            cache = self.secret_cache if needed.secrets else self.cache
            text = cache.render(
                file.template, _data(needed, world, node, plain), engine=file.engine, name=file.path
            )
        except TemplateError as error:
            return Failure(str(error))
        return _content(text or file.content, secret=bool(needed.secrets))


def _data(needed: templates.References, world: World, node: ManagedNode, plain: list[Data]) -> Data:
    if needed.secrets or needed.config_maps:
        return templates.data_of(
            node,
            world.nodes,
            secrets=_union(world.secrets, needed.secrets),
            config_maps=_union(world.config_maps, needed.config_maps),
        )
    if not plain:
        plain.append(templates.data_of(node, world.nodes))
    return plain[0]


def _union(known: Mapping[str, Mapping[str, T]], names: tuple[str, ...]) -> dict[str, T]:
    """Return all keys of several objects; those of later ones win."""
    return {key: value for name in names for key, value in known[name].items()}


def _field(kind: str) -> str:
    return "secretRefs" if kind == "Secret" else "configMapRefs"


def _content(text: str, *, secret: bool) -> Content:
    return Content(text, hashlib.sha256(encoded(text)).hexdigest(), secret)
