"""Whether the running kernel is still the installed one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from nodemanager.host.files.tree import Tree
from nodemanager.host.packages import database

_FOLDERS: Final = ("/usr/lib/modules", "/lib/modules")
_CONTAINER: Final = ("/run/systemd/container", "/run/.containerenv", "/.dockerenv")
_PARTS: Final = re.compile(r"[0-9]+|[a-zA-Z]+")
_VERSION: Final = re.compile(r"^[0-9.]+(-[0-9.]+)*")


def reboot_reason(tree: Tree, running: str) -> str:
    """Return why the kernel should be booted again, or an empty string.

    A container runs the kernel of its host, and another root runs none at all.
    """
    if not running or not tree.running or any(database.exists(tree, path) for path in _CONTAINER):
        return ""
    for folder in _FOLDERS:
        names = database.entries(tree, folder)
        if names:
            return outdated(running, [name for name in names if _usable(tree, f"{folder}/{name}")])
    return ""


def _usable(tree: Tree, folder: str) -> bool:
    """Modules that were built here (dkms) stay behind when a kernel is removed; its index does not."""
    return database.exists(tree, f"{folder}/modules.dep")


def outdated(running: str, installed: Sequence[str]) -> str:
    """Return why a kernel should not go on running beside these, or an empty string."""
    if not installed:
        return ""
    if running not in installed:
        return f"the running kernel {running} is not installed any more; {', '.join(installed)} is"
    newest = max((name for name in installed if _flavour(name) == _flavour(running)), key=_order)
    return f"kernel {newest} is installed, {running} is running" if newest != running else ""


def _flavour(kernel: str) -> str:
    """Return what is left without the version, such as -cloud-amd64."""
    return _VERSION.sub("", kernel)


def _order(version: str) -> list[tuple[int, int, str]]:
    """Compare numbers as numbers, and numbers after words (a release after its candidates)."""
    return [
        (1, int(part), "") if part.isdecimal() else (0, 0, part) for part in _PARTS.findall(version)
    ]  # fmt: skip
