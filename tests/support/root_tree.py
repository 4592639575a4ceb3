"""A directory that is a host's root, and the whole way of a file from its declaration onto the disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.host.files import file_facts
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.files.file_batch import FileBatch, FileTools
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import users
from nodemanager.host.process import runner
from nodemanager.host.results import Result
from nodemanager.host.state.journal import Journal
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import files, merge, needs
from nodemanager.plan.desired import Content, Contents, Desired
from nodemanager.plan.facts import Facts
from nodemanager.plan.steps import Step

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: managed files belong to root")


def config_set(name: str, **spec: Any) -> ConfigSet:
    """Return a ConfigSet of this name."""
    return ConfigSet(metadata=ObjectMeta(name=name), spec=msgspec.convert(spec, ConfigSetSpec))


def literal_contents(desired: Desired) -> Contents:
    """Return the contents of files without templates."""
    made = {}
    for item in desired.files:
        data = item.declaration.content.encode()
        made[item.declaration.path] = Content(data, hashlib.sha256(data).hexdigest())
    return made


class RootTree:
    """A host below a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = Tree(str(path))
        self.bucket = Bucket(self.tree)
        self.journal = Journal(self.tree)
        self.digests = file_facts.DigestCache()

    def at(self, path: str) -> Path:
        """Return a path of the host as one of this machine."""
        return self.path / path.lstrip("/")

    def plan(self, *sets: ConfigSet) -> list[Step]:
        """Return what would be done to the files."""
        desired = merge.merge(sets)
        contents = literal_contents(desired)
        needed = needs.file_needs(desired, contents)
        seen, listings = file_facts.observe_all(self.tree, needed.sizes, needed.purged, self.digests)
        facts = Facts(
            files=seen,
            listings=listings,
            users=users.user_numbers(self.tree, needed.users),
            groups=users.group_numbers(self.tree, needed.groups),
        )
        return files.plan_files(desired, contents, facts)

    async def converge(self, *sets: ConfigSet) -> list[Result]:
        """Bring the files about."""
        return await self.apply(self.plan(*sets))

    async def apply(self, steps: Sequence[Step]) -> list[Result]:
        """Carry out steps."""
        return await FileBatch(FileTools(self.tree, self.bucket, self.journal, runner.run)).apply(steps)

    def leftovers(self) -> list[Path]:
        """Return temporary files that should not be there any more."""
        return [path for path in self.path.rglob("*") if path.name.startswith(".nodemanager-")]


def outcomes(results: Sequence[Result]) -> dict[str, str]:
    """Return how it went, by resource."""
    return {str(result.id): str(result.outcome) for result in results}


def failure(results: Sequence[Result], resource: str) -> str:
    """Return why a resource failed."""
    return next(one.message for one in results if str(one.id) == resource and one.bad)
