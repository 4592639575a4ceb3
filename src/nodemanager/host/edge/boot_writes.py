"""Which files Kairos writes at every boot; of two writes to one path, the later one wins.

Stages come one after another. In each, folders are read in their order, and files in that of their names. A
command that names a path may write it, and so may an unreadable file: then the result is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from posixpath import normpath
from typing import Any, Final, NamedTuple

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.kube import manifests

OEM: Final = "/oem"
FOLDERS: Final = ("/system/oem", OEM, "/usr/local/cloud-config")
STAGES: Final = ("rootfs", "initramfs", "fs", "boot", "network", "reconcile")
"""The stages of a boot; others run when a user upgrades or resets the host."""
_PARTS: Final = {"before": -1, "after": 1}
_CLOUD_INIT: Final = "boot"
"""The stage in which files from cloud-init's own keywords are written."""
_ENDS: Final = (".yaml", ".yml")
_CANNOT: Final = "cannot tell what is written at boot"
_MAX_FILES: Final = 512
_MAX_BYTES: Final = 4 * 1024 * 1024


class BootMoment(NamedTuple):
    """The moment of a write; the greatest one wins."""

    stage: int
    folder: int
    name: tuple[str, ...]


class BootWrite(NamedTuple):
    """A path that is written, or that may be."""

    when: BootMoment
    path: str
    by: str
    """The file that declares it."""
    text: str | None = None
    """The written text; None = unknown."""


def moment(by: str, stage: str) -> BootMoment | None:
    """Return when a file writes what it has in a stage; None = not at boot."""
    name, _, part = stage.partition(".")
    folder = next(number for number, one in enumerate(FOLDERS) if by.startswith(f"{one}/"))
    if name not in STAGES or part not in ("", *_PARTS):
        return None
    rank = 3 * STAGES.index(name) + _PARTS.get(part, 0)
    return BootMoment(rank, folder, tuple(by.removeprefix(FOLDERS[folder]).split("/")))


def said(text: str, by: str, paths: Collection[str] = ()) -> list[BootWrite]:
    """Return what a file has written at boot; `paths` are those that are looked for in commands; pure."""
    return [one for one in _said(document(text, by), by, paths) if one.path]


def document(text: str, by: str) -> dict[str, Any]:
    """Return the first document of a file, the only one that counts; raises HostError if it is none; pure."""
    try:
        found = next((value for _, value in manifests.documents(text, by)), None)
    except manifests.ManifestError as error:
        raise HostError(str(error)) from error
    return found if isinstance(found, dict) else {}


def _said(file: dict[str, Any], by: str, paths: Collection[str]) -> Iterator[BootWrite]:
    alike = {"files": file.get("write_files"), "commands": [file.get("bootcmd"), file.get("runcmd")]}
    stages = file.get("stages")
    for stage, steps in [*(stages.items() if isinstance(stages, dict) else ()), (_CLOUD_INIT, [alike])]:
        if (when := moment(by, stage)) is None:
            continue
        for step in dicts(steps):
            for one in (*dicts(step.get("files")), *dicts(step.get("downloads"))):
                text = None if one.get("encoding") or "url" in one else str(one.get("content", ""))
                yield BootWrite(when, where(one), by, text)
            for path in _named(step.get("commands"), paths):
                yield BootWrite(when, path, by)


def where(file: dict[str, Any]) -> str:
    """Return the path that a file is written to, however it is put; pure."""
    path = str(file.get("path", ""))
    return normpath(f"/{path.lstrip('/')}") if path.startswith("/") else ""


def dicts(value: Any) -> list[dict[str, Any]]:
    """Return what is an object in a list, if it is one; pure."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _named(commands: Any, paths: Collection[str]) -> list[str]:
    """Return the paths that commands name."""
    text = str(commands or "")
    return [one for one in paths if re.search(rf"{re.escape(one)}(?![\w.@-])", text)]


def on_host(tree: Tree, paths: Collection[str]) -> list[BootWrite]:
    """Return what writes these paths when the host boots."""
    found: list[BootWrite] = []
    for by, text in _texts(tree):
        if not any(one.rpartition("/")[2] in text for one in paths):
            continue
        try:
            found += [one for one in said(text, by, paths) if one.path in paths]
        except HostError:  # if Kairos can read it, it may write anything that it names
            when = moment(by, f"{STAGES[-1]}.after")
            found += [BootWrite(when, one, by) for one in paths if one.rpartition("/")[2] in text if when]
    return found


def _texts(tree: Tree) -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        here = Path(tree.outside(folder))
        try:
            there = [one for one in sorted(here.rglob("*")) if one.suffix in _ENDS and one.is_file()]
        except OSError as error:
            raise HostError(f"{_CANNOT}: {folder}: {error.strerror or error}") from error
        if len(there) > _MAX_FILES:
            raise HostError(f"{_CANNOT}: {folder} has more than {_MAX_FILES} files")
        for one in there:
            name = str(one.relative_to(here)).encode("utf-8", "backslashreplace").decode()
            yield f"{folder}/{name}", _text(one)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise HostError(f"{_CANNOT}: {path}: {error.strerror or error}") from error
    if len(data) > _MAX_BYTES:
        raise HostError(f"{_CANNOT}: {path} has more than {_MAX_BYTES} bytes")
    return data.decode("utf-8", "replace")


def need_last_word(tree: Tree, by: str, text: str, paths: Collection[str] | None = None) -> None:
    """Raise HostError if what a file shall write at boot would be overwritten by another one.

    Of what is in it, `paths` alone matter, if they are given.
    """
    last: dict[str, BootMoment] = {}
    for one in said(text, by):
        if paths is None or one.path in paths:
            last[one.path] = max(one.when, last.get(one.path, one.when))
    for one in on_host(tree, last):
        if one.by != by and one.when > last[one.path]:
            raise HostError(
                f"cannot have {by} write {one.path} at boot: {one.by} comes after it and "
                f"{'writes' if one.text is not None else 'may write'} the same; take that out of {one.by}, or"
                " give a name that comes after it"
            )
