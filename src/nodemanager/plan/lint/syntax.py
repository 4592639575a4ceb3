"""Whether templates can be read at all: asked of the process that renders, without any data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nodemanager.api.common.configset import ConfigSet
from nodemanager.plan import templates
from nodemanager.plan.lint.config_sets import finding
from nodemanager.plan.lint.findings import Finding, Step
from nodemanager.plan.templates import Data, Job, NotRendered, Rendered, TemplateError

_NO_DATA = Data(node={})
_ALL = re.compile(r";? there are: .*", re.DOTALL)
"""The names of all functions, which would fill a screen."""


def jobs(config_set: ConfigSet) -> list[Job]:
    """Return what has to be read to know whether the templates of a set can be."""
    owner = f"ConfigSet {config_set.metadata.name}"
    return [
        Job(text, _NO_DATA, engine, file, owner, parse_only=True)
        for _, file, engine, text in _templates(config_set)
    ]


def findings(
    config_set: ConfigSet, answers: Sequence[Rendered], *, limits: bool = False
) -> Iterator[Finding]:
    """Yield findings from the answers to the `jobs` of a set; with `limits`, also limits that were met."""
    for (path, file, _, _), answer in zip(_templates(config_set), answers, strict=True):
        if isinstance(answer, TemplateError) and (limits or not isinstance(answer, NotRendered)):
            why = _ALL.sub("", answer.why)
            found = finding(config_set, "template-syntax", path, f"{file}: {why}", "error")
            yield replace(found, line=answer.line, column=answer.column)


def unread(answers: Sequence[Rendered]) -> str:
    """Return why some template could not be read now, which says nothing about it; empty = all were."""
    return next((str(answer) for answer in answers if isinstance(answer, NotRendered)), "")


def _templates(config_set: ConfigSet) -> Iterator[tuple[tuple[Step, ...], str, str, str]]:
    """Yield way, path of the file, engine and text of every template."""
    for place, file in enumerate(config_set.spec.files):
        if file.template and not templates.is_literal(file.template):
            yield ("spec", "files", place, "template"), file.path, file.engine, file.template
            for number, ref in enumerate(file.secret_refs):
                if not templates.is_literal(ref):
                    yield ("spec", "files", place, "secretRefs", number), file.path, "gotemplate", ref
