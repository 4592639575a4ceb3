"""The table of host kinds, in the order in which a pass brings them about.

    packages -> files -> services -> executions

Code that treats kinds differently keeps one part per kind and lets the table check it (`each`). A kind that
lacks a part is then an error when the program starts, and not a resource that is silently left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from nodemanager.api.common.configset import SETTINGS, ConfigSetSpec
from nodemanager.plan import executions, files, packages, resources, services
from nodemanager.plan.desired import Desired, Item
from nodemanager.plan.host_kinds import AnyKind
from nodemanager.plan.resources import FILE, ResourceId

T = TypeVar("T")
_NAME: Final = re.compile("[a-z]+")


class IncompleteHostKind(ValueError):
    """A kind lacks one of its parts, or a part belongs to no kind."""


class HostKinds:
    """Kinds of host resources, in the order of a pass."""

    def __init__(self, *kinds: AnyKind, spec: type[ConfigSetSpec] = ConfigSetSpec) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        if len(self._kinds) < len(kinds):
            raise IncompleteHostKind("cannot make a table of kinds: two of them have the same name")
        for name in self._kinds:
            if not _NAME.fullmatch(name):
                raise IncompleteHostKind(f"cannot name a kind {name!r}: a name is made of small letters")
        fields = {kind.declaring.field for kind in kinds}
        declared = set(spec.__struct_fields__) - SETTINGS
        if fields != declared:
            raise IncompleteHostKind(
                f"kinds and fields of {spec.__name__} differ in {', '.join(sorted(fields ^ declared))}: each"
                " list of resources in the spec needs a kind, and each kind its list"
            )
        self.put_back: Final = tuple(
            sorted((one for one in kinds if not _is_owed(one)), key=lambda one: one.slow)
        )
        """What a repair restores, in order: files first, so that they do not wait for a slow tool."""
        self.owed: Final = tuple(one for one in kinds if _is_owed(one))
        """What is owed a restart or a run when files change; it follows them in a repair, too."""
        names = list(self._kinds)
        self.after_files: Final = frozenset(names[names.index(FILE) + 1 :])
        """Names of what is held back when the validation of a file aborts a ConfigSet."""

    def __iter__(self) -> Iterator[AnyKind]:
        return iter(self._kinds.values())

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def __getitem__(self, name: str) -> AnyKind:
        return self._kinds[name]

    def beginning(self, desired: Desired) -> Iterator[Item[Any]]:
        """Yield what is declared to begin something, of the kinds after files."""
        for kind in self:
            if kind.name in self.after_files:
                items = desired.items.get(kind.name, ())
                yield from (item for item in items if kind.begins(item.declaration))

    def each(self, part: str, parts: Mapping[str, T]) -> dict[str, T]:
        """Return one `part` for every kind, in the order of the table; a missing one is an error."""
        missing = [name for name in self._kinds if name not in parts]
        if missing:
            raise IncompleteHostKind(f"kind {missing[0]} has no {part}: register one under its name")
        strange = [name for name in parts if name not in self._kinds]
        if strange:
            raise IncompleteHostKind(f"there is a {part} for {strange[0]}, which is no kind of this table")
        return {name: parts[name] for name in self._kinds}

    def parse(self, text: str) -> ResourceId:
        """Return the resource, of one of these kinds, that a text such as `file:/etc/motd` names."""
        found = resources.parse_id(text)
        if found.kind not in self:
            raise ValueError(f"cannot read resource {text[:80]!r}: there is no kind {found.kind[:20]!r}")
        return found

    def owning_resource(self, one: ResourceId, declared: Mapping[ResourceId, object]) -> ResourceId:
        """Return the declared resource that a result is about: of an entry that was purged, the directory."""
        if one in declared:
            return one
        drift = self[one.kind].drift
        return drift.owning_resource(one) if drift else one


def _is_owed(kind: AnyKind) -> bool:
    return kind.declaring.subscriptions is not None


KINDS: Final = HostKinds(packages.KIND, files.KIND, services.KIND, executions.KIND)
"""What a ConfigSet can declare for a host."""
