"""Manifests to be linted: read to the end, whatever is wrong with some of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nodemanager.cli.linting import places
from nodemanager.cli.linting.places import Places
from nodemanager.cli.manifests import manifest_files
from nodemanager.cli.manifests.manifest_folder import DeclaredObjects, DuplicateObject
from nodemanager.kube import manifests
from nodemanager.kube.manifests import ManifestError
from nodemanager.kube.objects import Untyped
from nodemanager.plan.lint.findings import Finding, Step

_FIELD: Final = re.compile(r"\b(?:metadata|spec|status)(?:\.\w+|\[\d+\])+")
_STEP: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ManifestOrigin:
    """Where an object is declared."""

    file: Path
    places: Places
    prefix: tuple[Step, ...] = ()
    """The way to it within the document, in a List."""


@dataclass(frozen=True, slots=True)
class Located:
    """A finding with the file and the line that it is about."""

    finding: Finding
    file: Path
    line: int


@dataclass(slots=True)
class ManifestSources:
    """All that was read."""

    collection: DeclaredObjects = field(default_factory=DeclaredObjects)
    made_elsewhere: set[str] = field(default_factory=set)
    """Names of Secrets that a program in the cluster makes, with keys that are unknown here."""
    files: int = 0
    objects: int = 0
    located: list[Located] = field(default_factory=list)
    _origins: dict[tuple[str, str], ManifestOrigin] = field(default_factory=dict)

    def locate(self, findings: Iterable[Finding]) -> None:
        """Take findings, with the places of their objects."""
        for one in findings:
            if (origin := self._origins.get((one.kind, one.name))) is not None:
                self.located.append(_located(one, origin))

    def read(self, paths: Iterable[Path]) -> None:
        """Read files and folders; raise what says that there are none."""
        for path in manifest_files.files(paths):
            self.files += 1
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            text = manifest_files.text(path)
            read = manifests.documents(text, str(path))
        except ManifestError as error:
            self.located.append(Located(_unreadable("yaml", str(error)), path, error.line))
            return
        for number, ((line, value), known) in enumerate(zip(read, places.places(text), strict=True), 1):
            try:
                objects = _objects(value, line, str(path), number)
            except ManifestError as error:
                self.located.append(Located(_unreadable("yaml", str(error)), path, line))
                continue
            for prefix, obj in objects:
                self._add(obj, ManifestOrigin(path, known, prefix))

    def _add(self, obj: Untyped, origin: ManifestOrigin) -> None:
        self.objects += 1
        meta: Any = obj.get("metadata")
        name = str(meta.get("name", "")) if isinstance(meta, dict) else ""
        try:
            self.collection.add(obj, origin.file)
        except ManifestError as error:
            rule = "duplicate-object" if isinstance(error, DuplicateObject) else "schema"
            message = str(error).removeprefix(f"cannot use {obj['kind']} {name} in {origin.file}: ")
            found = _FIELD.search(message)
            steps = _STEP.findall(found[0]) if found else []
            path = tuple(int(step) if step.isdigit() else step for step in steps)
            message = message.removeprefix(f"{found[0]}: " if found else "")
            wrong = Finding(rule, "error", obj["kind"], name, path, message)
            self.located.append(_located(wrong, origin))
            return
        self._origins.setdefault((obj["kind"], name), origin)
        if obj["kind"].endswith("Secret") and obj["apiVersion"] != "v1":  # SealedSecret, ExternalSecret, ...
            spec: Any = obj.get("spec")
            target = spec.get("target") if isinstance(spec, dict) else None
            self.made_elsewhere.add(str((target if isinstance(target, dict) else {}).get("name") or name))


def _objects(value: Any, line: int, source: str, document: int) -> list[tuple[tuple[Step, ...], Untyped]]:
    """Return the objects of a document with the way to each."""
    found = manifests.objects(value, line, source, document)
    if found and found[0] is not value:
        return [(("items", number), obj) for number, obj in enumerate(found)]
    return [((), obj) for obj in found]


def _unreadable(rule: str, message: str) -> Finding:
    return Finding(rule, "error", "", "", (), message)


def _located(one: Finding, origin: ManifestOrigin) -> Located:
    place = places.nearest(origin.places, (*origin.prefix, *one.path))
    if one.line is not None and place.block is not None:
        return Located(one, origin.file, place.block + one.line - 1)
    return Located(one, origin.file, place.line)
