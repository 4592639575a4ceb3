"""How a file differs from its declaration: digests, and a diff where everybody may read both."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import Final

from nodemanager.host.files import file_facts
from nodemanager.host.files.tree import Tree
from nodemanager.plan.facts import Kind
from nodemanager.plan.steps import FileStep, WriteFile

MAX_READ: Final = 64 * 1024
"""Larger files are not compared line by line."""
MAX_LINES: Final = 2000
MAX_TEXT: Final = 700
"""Most characters of a diff; it must fit into an Event together with its subject."""
MAX_LINE: Final = 160


@dataclass(frozen=True, slots=True)
class Difference:
    """The present and the declared state of a file."""

    found: str = ""
    """SHA-256 of the content, for files that everybody may read."""
    wanted: str = ""
    diff: str = ""
    """A unified diff, cut at a limit; empty if there is none, or it is private."""
    private: str = ""
    """SHA-256 of the content, even if it is private: it must never be published."""


def is_public(step: FileStep) -> bool:
    """Tell whether the declared content of a file is public."""
    return isinstance(step, WriteFile) and not step.content.secret and bool(step.mode & stat.S_IROTH)


def look(tree: Tree, step: FileStep) -> Difference:
    """Return how what is there now differs from what a step would bring about; blocking."""
    if not isinstance(step, WriteFile) or step.before.kind is not Kind.FILE:
        return Difference(
            wanted=step.content.digest if isinstance(step, WriteFile) and is_public(step) else ""
        )
    try:
        data, digest, mode = _read(tree, step.path)
    except OSError:
        return Difference()  # it is gone again, or not to be read: the step's own reason has to do
    finally:
        tree.forget()
    if not is_public(step) or not mode & stat.S_IROTH:
        return Difference(private=digest)
    return Difference(digest, step.content.digest, _diff(step, data), digest)


def _read(tree: Tree, path: str) -> tuple[bytes | None, str, int]:
    descriptor = file_facts.open_file(tree.place(path))
    try:
        found = os.fstat(descriptor)
        if found.st_size > MAX_READ:
            return None, file_facts.hash_descriptor(descriptor, found.st_size), found.st_mode
        data = os.read(descriptor, MAX_READ)
        return data, hashlib.sha256(data).hexdigest(), found.st_mode
    finally:
        os.close(descriptor)


def _diff(step: WriteFile, data: bytes | None) -> str:
    if data is None or step.content.size > MAX_READ:
        return ""
    try:
        found, wanted = data.decode(), step.content.data.decode()
    except UnicodeDecodeError:
        return ""
    old, new = wanted.splitlines(), found.splitlines()
    if max(len(old), len(new)) > MAX_LINES:
        return ""
    import difflib

    lines = difflib.unified_diff(old, new, "declared", "found", lineterm="", n=1)
    text = "\n".join(map(_plain, lines))
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def _plain(line: str) -> str:
    """Return a line that no terminal takes for a command, and that is not too long."""
    line = line.expandtabs(4)[:MAX_LINE]
    return "".join(char if char.isprintable() else "?" for char in line)
