"""Plans as data files: declarations and facts in, steps out.

sets:      {name: spec, ...}            ConfigSets of the host, with `priority` if any
facts:     what was observed            as in plan.facts, lists of paths and names as maps
contents:  {path: text | {secret: text} | {failure: why}}   default: the declared content
steps:     [[resource, step, reason, {field: value}], ...]   in order; the map is optional
conflicts: {set: [...]}                 optional
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import facts, files, merge, subscribers
from nodemanager.plan.desired import Content, Contents, Desired, Failure
from nodemanager.plan.host_kinds import PlanInput
from nodemanager.plan.resources import ResourceId, parse_id
from nodemanager.plan.stages import KINDS
from nodemanager.plan.steps import Step

MERGING = "merge"
"""The folder of cases that are about merging only; each other one is named as a list in a ConfigSet."""
CASES = Path(__file__).resolve().parent.parent / "cases" / "plan"


def plan_cases() -> list[Any]:
    """Return all cases as parameters named by folder and file."""
    paths = sorted(CASES.glob("*/*.yaml"))
    assert paths, f"no cases in {CASES}"
    return [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for path in paths]


def digest(text: str) -> str:
    """Return what a fact says about a content."""
    return hashlib.sha256(text.encode()).hexdigest()


class Case:
    """One data file."""

    def __init__(self, path: Path) -> None:
        self.stage = path.parent.name
        self.given: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        unknown = set(self.given) - {"sets", "facts", "contents", "steps", "conflicts"}
        assert not unknown, f"{path} has unknown keys {unknown}"

    def desired(self) -> Desired:
        """Return the merged declarations."""
        return merge.merge(
            ConfigSet(metadata=ObjectMeta(name=name), spec=msgspec.convert(spec, ConfigSetSpec))
            for name, spec in self.given["sets"].items()
        )

    def contents(self, desired: Desired) -> Contents:
        """Return the contents of all files."""
        made: dict[str, Content | Failure] = {}
        given = self.given.get("contents", {})
        for item in desired.files:
            text = given.get(item.declaration.path, item.declaration.content)
            if isinstance(text, dict) and "failure" in text:
                made[item.declaration.path] = Failure(text["failure"])
                continue
            secret = isinstance(text, dict)
            plain = text["secret"] if isinstance(text, dict) else text
            made[item.declaration.path] = Content(plain.encode(), digest(plain), secret)
        return made

    def facts(self) -> facts.Facts:
        """Return what was observed."""
        given = self.given.get("facts", {})
        seen = {}
        for path, fact in given.get("files", {}).items():
            content = fact.pop("content", None)
            kind = facts.Kind(fact.pop("kind", "file"))
            seen[path] = facts.FileFact(kind, digest="" if content is None else digest(content), **fact)
        listings = {
            path: None if names is None else tuple(names) for path, names in given.get("listings", {}).items()
        }
        return facts.Facts(
            files=seen,
            listings=listings,
            packages=facts.PackageFacts(**given.get("packages", {})),
            services={
                parse_id(one): facts.ServiceFact(**fact) for one, fact in given.get("services", {}).items()
            },
            users=given.get("users", {}),
            groups=given.get("groups", {}),
            pending=self._named(
                {one: facts.Pending(tuple(causes)) for one, causes in given.get("pending", {}).items()}
            ),
            verdicts=self._named(
                {one: facts.Verdicts(**said) for one, said in given.get("verdicts", {}).items()}
            ),
        )

    def _named(self, given: dict[str, Any]) -> dict[ResourceId, Any]:
        """Executions are named by their program in the data files, as their digest is no fact."""
        known = {f"exec:{item.id.name.rpartition('#')[0]}": item.id for item in self.desired().executions}
        return {known.get(one) or parse_id(one): value for one, value in given.items()}

    def steps(self) -> list[Step]:
        """Return what the planner of the stage makes of it."""
        desired, seen = self.desired(), self.facts()
        contents = self.contents(desired)
        changing = subscribers.owed(files.plan_files(desired, contents, seen)) if seen.files else {}
        if self.stage == MERGING:
            return []
        kind = {one.declaring.field: one for one in KINDS}[self.stage]
        return kind.plan(PlanInput(desired, contents, seen.pending, changing), seen)


def shown(step: Step, fields: dict[str, Any]) -> list[Any]:
    """Return a step in the form of the data files, with the fields that a case asks about."""
    name = str(step.id).partition("#")[0]
    row: list[Any] = [name, type(step).__name__, step.reason]
    values = {field.name: getattr(step, field.name) for field in msgspec.structs.fields(step)}
    if fields:
        row.append({field: _plain(values[field]) for field in fields})
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, ResourceId):
        return str(value).partition("#")[0]
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value
