"""Makes the contents of files: literal, from a key of a Secret or ConfigMap, or from a template."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.template_views import TemplateViews
from nodemanager.api.common.declarations import File
from nodemanager.api.common.file_content import ContentFrom
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.plan import templates
from nodemanager.plan.desired import Content, Contents, Desired, Failure, Item, encoded
from nodemanager.plan.templates import Job, NotRendered, RenderCache, TemplateError, references
from nodemanager.rendering.renderer import Rendering


@dataclass(slots=True)
class Contenter:
    """Makes the contents of files; a template is rendered again only if its inputs have changed."""

    renderer: Rendering
    cache: RenderCache = field(default_factory=RenderCache)
    secret_cache: RenderCache = field(default_factory=RenderCache)
    """Contents made of Secrets: kept separately, so that they can be forgotten with these."""

    async def make(self, desired: Desired, inputs: DeclaredInputs, node: ManagedNode) -> Contents:
        """Return the content of every file, or why there is none; all templates are rendered together."""
        if inputs.withheld:
            self.secret_cache.clear()
        made: dict[str, Content | Failure] = {}
        views = TemplateViews(inputs, node)
        waiting: list[_Waiting] = []
        lax = frozenset(one.metadata.name for one in inputs.config_sets if one.spec.lax)
        files = [item for item in desired.files if item.declaration.ensure == "file"]
        for item, needed in zip(files, await self._references(files, node, lax), strict=True):
            file = item.declaration
            if not references.refers(file):
                made[file.path] = _literal(file)
            elif (failure := _lacking(file, needed, inputs)) is not None:
                made[file.path] = failure
            elif file.content_from is not None and not file.template:
                made[file.path] = _value(file, file.content_from, needed, inputs)
            else:
                made[file.path] = _UNRENDERED  # keeps the order of the files
                view = views.of(file, needed)
                if isinstance(view, Failure):
                    made[file.path] = view
                    continue
                job = Job(file.template, view.data, file.engine, file.path, _owner(item), _lax(item, lax))
                waiting.append(_Waiting(file, job, self.secret_cache if view.secret else self.cache))
        made.update(await self._rendered(waiting))
        return made

    async def _references(
        self, files: Sequence[Item[File]], node: ManagedNode, lax: frozenset[str]
    ) -> list[templates.References]:
        """Return the references of each file; all names that are templates are rendered at once."""
        data = references.visible(node)
        todo = [
            references.jobs([item.declaration], data, _owner(item), lax=_lax(item, lax)) for item in files
        ]
        jobs = [job for each in todo for job in each]
        answers = iter(await self.renderer.render(jobs) if jobs else [])
        return [
            references.referenced([item.declaration], [next(answers) for _ in each])
            for item, each in zip(files, todo, strict=True)
        ]

    async def _rendered(self, waiting: Sequence[_Waiting]) -> dict[str, Content | Failure]:
        found = [
            one.cache.get(one.job.text, one.job.data, one.job.engine, one.job.name, lax=one.job.lax)
            for one in waiting
        ]
        new = [one for one, known in zip(waiting, found, strict=True) if known is None]
        answers = iter(await self.renderer.render([one.job for one in new]) if new else [])
        made: dict[str, Content | Failure] = {}
        for one, known in zip(waiting, found, strict=True):
            if (text := known) is None:
                text = next(answers)
                one.cache.keep(one.job.text, one.job.data, one.job.engine, text, lax=one.job.lax)
            if isinstance(text, TemplateError):
                made[one.file.path] = Failure(str(text), passing=isinstance(text, NotRendered))
            else:
                made[one.file.path] = _content(
                    text or one.file.content, secret=one.cache is self.secret_cache
                )
        return made


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A file that has to be rendered, and the place where its result is kept."""

    file: File
    job: Job
    cache: RenderCache


_UNRENDERED: Final = Failure("it was not rendered")


def _owner(item: Item[File]) -> str:
    return f"ConfigSet {item.sources[0]}" if item.sources else ""


def _lax(item: Item[File], lax: frozenset[str]) -> bool:
    """Tell whether all sets that declare a file want missing values in its template to be empty."""
    return bool(lax) and lax.issuperset(item.sources)


def _literal(file: File) -> Content | Failure:
    """Return the content in the declaration itself."""
    if not file.content_base64:
        return _content(file.content, secret=False)
    try:
        return _content(base64.b64decode("".join(file.content_base64.split()), validate=True), secret=False)
    except (binascii.Error, ValueError):
        return Failure(
            f"cannot fill {file.path}: contentBase64 is not base64; write what `base64 FILE` prints"
        )


def _value(
    file: File, source: ContentFrom, needed: templates.References, inputs: DeclaredInputs
) -> Content | Failure:
    """Return the value of the one key that a file takes its content from, unchanged."""
    values: Mapping[str, str | bytes]
    if source.secret_key_ref is not None:
        kind, key, names = "Secret", source.secret_key_ref.key, needed.secrets
        values = inputs.secrets[names[0]] if names else {}
    elif source.config_map_key_ref is not None:
        kind, key, names = "ConfigMap", source.config_map_key_ref.key, needed.config_maps
        values = inputs.config_maps[names[0]] if names else {}
    else:
        kind, key, names, values = "Secret", "", (), {}
    if not names:
        return Failure(
            f"cannot fill {file.path}: contentFrom names no Secret or ConfigMap on this host; name one"
        )
    if key not in values:
        return Failure(
            f"cannot fill {file.path}: {kind} {names[0]} has no key {key}; add it, or correct contentFrom"
        )
    return _content(values[key], secret=kind == "Secret")


def _lacking(file: File, needed: templates.References, inputs: DeclaredInputs) -> Failure | None:
    """Return which missing reference leaves a file without content."""
    verb = "render" if file.template else "fill"
    if needed.errors:
        passing = any(isinstance(error, NotRendered) for error in needed.errors)
        return Failure(str(needed.errors[0]), passing=passing)
    for kind, names, known in (
        ("Secret", needed.secrets, inputs.secrets),
        ("ConfigMap", needed.config_maps, inputs.config_maps),
    ):
        missing = next((name for name in names if name not in known), None)
        if missing is not None and kind == "Secret" and inputs.withheld:
            return Failure(f"cannot {verb} {file.path}: Secret {missing} is not used: {inputs.withheld}")
        if missing is not None:
            return Failure(
                f"cannot {verb} {file.path}: {kind} {missing} does not exist, or this host may not read"
                f" it; create it in the namespace of the ConfigSet, or correct {_field(file, kind)}",
                awaits=f"{kind} {missing}",
            )
    return None


def _field(file: File, kind: str) -> str:
    if not file.template:
        return "contentFrom"
    return "secretRefs" if kind == "Secret" else "configMapRefs"


def _content(source: str | bytes, *, secret: bool) -> Content:
    data = source if isinstance(source, bytes) else encoded(source)
    return Content(source, hashlib.sha256(data).hexdigest(), secret)
