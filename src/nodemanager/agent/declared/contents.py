"""What files shall contain: literal text, or templates filled with what the host may know."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.plan import templates
from nodemanager.plan.desired import Content, Contents, Desired, Failure, Item, encoded
from nodemanager.plan.templates import Data, Job, NotRendered, RenderCache, TemplateError, references
from nodemanager.rendering.renderer import Rendering

T = TypeVar("T", str, bytes)


@dataclass(slots=True)
class Contenter:
    """Makes the contents of files; renders again only what has other inputs than before."""

    renderer: Rendering
    cache: RenderCache = field(default_factory=RenderCache)
    secret_cache: RenderCache = field(default_factory=RenderCache)
    """What was made of Secrets: apart, so that it can be forgotten with them."""

    async def make(self, desired: Desired, inputs: DeclaredInputs, node: ManagedNode) -> Contents:
        """Return the content of every file, or why it cannot be had; what is to be rendered goes together."""
        if inputs.withheld:
            self.secret_cache.clear()
        made: dict[str, Content | Failure] = {}
        plain = _Plain(inputs, node)
        waiting: list[_Waiting] = []
        files = [item for item in desired.files if item.declaration.ensure == "file"]
        for item, needed in zip(files, await self._references(files, node), strict=True):
            file = item.declaration
            if not file.template:
                made[file.path] = _content(file.content, secret=False)
            elif (failure := _lacking(file, needed, inputs)) is not None:
                made[file.path] = failure
            else:
                made[file.path] = _UNRENDERED  # keeps the order of the files
                job = Job(file.template, plain.data(needed), file.engine, file.path, _owner(item))
                waiting.append(_Waiting(file, job, self.secret_cache if needed.secrets else self.cache))
        made.update(await self._rendered(waiting))
        return made

    async def _references(self, files: Sequence[Item[File]], node: ManagedNode) -> list[templates.References]:
        """Return for each file what it refers to; all names that are templates are rendered at once."""
        data = references.visible(node)
        todo = [references.jobs([item.declaration], data, _owner(item)) for item in files]
        jobs = [job for each in todo for job in each]
        answers = iter(await self.renderer.render(jobs) if jobs else [])
        return [
            references.referenced([item.declaration], [next(answers) for _ in each])
            for item, each in zip(files, todo, strict=True)
        ]

    async def _rendered(self, waiting: Sequence[_Waiting]) -> dict[str, Content | Failure]:
        found = [one.cache.get(one.job.text, one.job.data, one.job.engine, one.job.name) for one in waiting]
        new = [one for one, known in zip(waiting, found, strict=True) if known is None]
        answers = iter(await self.renderer.render([one.job for one in new]) if new else [])
        made: dict[str, Content | Failure] = {}
        for one, known in zip(waiting, found, strict=True):
            if (text := known) is None:
                text = next(answers)
                one.cache.keep(one.job.text, one.job.data, one.job.engine, text)
            if isinstance(text, TemplateError):
                made[one.file.path] = Failure(str(text), passing=isinstance(text, NotRendered))
            else:
                made[one.file.path] = _content(
                    text or one.file.content, secret=one.cache is self.secret_cache
                )
        return made


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A file that is to be rendered, and where what comes of it is kept."""

    file: File
    job: Job
    cache: RenderCache


_UNRENDERED: Final = Failure("it was not rendered")


def _owner(item: Item[File]) -> str:
    return f"ConfigSet {item.sources[0]}" if item.sources else ""


def _lacking(file: File, needed: templates.References, inputs: DeclaredInputs) -> Failure | None:
    """Return why a file cannot be rendered for want of what it refers to."""
    if needed.errors:
        passing = any(isinstance(error, NotRendered) for error in needed.errors)
        return Failure(str(needed.errors[0]), passing=passing)
    for kind, names, known in (
        ("Secret", needed.secrets, inputs.secrets),
        ("ConfigMap", needed.config_maps, inputs.config_maps),
    ):
        missing = next((name for name in names if name not in known), None)
        if missing is not None and kind == "Secret" and inputs.withheld:
            return Failure(f"cannot render {file.path}: Secret {missing} is not used: {inputs.withheld}")
        if missing is not None:
            return Failure(
                f"cannot render {file.path}: {kind} {missing} does not exist, or this host may not read"
                f" it; create it in the namespace of the ConfigSet, or correct {_field(kind)}",
                awaits=f"{kind} {missing}",
            )
    return None


class _Plain:
    """What templates see; made once for all files that refer to no Secret or ConfigMap."""

    def __init__(self, inputs: DeclaredInputs, node: ManagedNode) -> None:
        self._inputs = inputs
        self._node = node
        self._data: Data | None = None

    def data(self, needed: templates.References) -> Data:
        """Return the data of a file that refers to these."""
        if self._data is None:
            self._data = templates.data_of(self._node, self._inputs.nodes)
        if not (needed.secrets or needed.config_maps):
            return self._data
        own = templates.node_data(
            self._node,
            secrets=_union(self._inputs.secrets, needed.secrets),
            config_maps=_union(self._inputs.config_maps, needed.config_maps),
        )
        return Data(node=own, nodes=self._data.nodes)


def _union(known: Mapping[str, Mapping[str, T]], names: tuple[str, ...]) -> dict[str, T]:
    """Return all keys of several objects; those of later ones win."""
    return {key: value for name in names for key, value in known[name].items()}


def _field(kind: str) -> str:
    return "secretRefs" if kind == "Secret" else "configMapRefs"


def _content(text: str, *, secret: bool) -> Content:
    return Content(text, hashlib.sha256(encoded(text)).hexdigest(), secret)
