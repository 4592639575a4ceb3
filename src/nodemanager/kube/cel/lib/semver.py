"""semver: versions such as "1.2.3-rc.1", ordered as semver.org says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library, reads
from nodemanager.kube.cel.values import CelExtension

LIBRARY = Library()
_add = LIBRARY.add
_TYPE = "kubernetes.Semver"
_MAX_TEXT = 256
_NUMBER = "(0|[1-9][0-9]{0,18})"
_PART = "(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_TEXT = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


@dataclass(frozen=True, slots=True)
class Semver(CelExtension):
    """A version; what it was built from does not count."""

    TYPE: ClassVar[str] = _TYPE
    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...]
    build: str = field(default="", compare=False)

    @property
    def rank(self) -> tuple[tuple[int, int, int], bool, list[tuple[bool, int, str]]]:
        """What versions are ordered by: a release comes after its prereleases."""
        parts = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in self.prerelease]
        return self.numbers, not self.prerelease, parts


def parse(text: str) -> Semver:
    """Read a version; raise CelError for anything else."""
    found = _TEXT.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if found is None:
        if text.count(".") < 2:
            raise CelError("No Major.Minor.Patch elements found")
        raise CelError(f'Invalid version "{text[:_MAX_TEXT]}": not a semantic version')
    prerelease = tuple(found[4].split(".")) if found[4] else ()
    return Semver((int(found[1]), int(found[2]), int(found[3])), prerelease, found[5] or "")


def _normalized(text: str) -> str:
    """Remove a leading v and leading zeros, and add what is missing of three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped and stripped[0] in "0123456789" else f"0{stripped}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelError("Short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


@_add("semver", f"(string) -> {_TYPE}", f"(string, bool) -> {_TYPE}")
def _semver(text: str, normalize: bool = False) -> Semver:
    return parse(_normalized(text) if normalize else text)


_add("isSemver", "(string) -> bool", "(string, bool) -> bool")(reads(_semver))
LIBRARY.add_order(_TYPE, lambda value: value.rank)
_add("major", f"{_TYPE}.() -> int")(lambda value: value.numbers[0])
_add("minor", f"{_TYPE}.() -> int")(lambda value: value.numbers[1])
_add("patch", f"{_TYPE}.() -> int")(lambda value: value.numbers[2])
