"""How programs are run for a host: in a small environment, and inside its root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Unpack

from nodemanager.host.base import Follower, How, Runner
from nodemanager.host.files.tree import is_running
from nodemanager.host.inventory.boot import SYSTEMD
from nodemanager.host.process import runner
from nodemanager.host.process.runner import Completed

ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
}
"""No variable of our own environment is passed on: it may hold credentials, and it differs between a service
and a shell. The language is fixed because output is parsed."""
NAMESPACES: Final = ("nsenter", "--target=1", "--mount", "--uts", "--ipc", "--net", "--")
"""From a container into its host: programs then see the mounts of the host."""
SCOPE: Final = ("systemd-run", "--scope", "--quiet", "--collect", "--")
"""Leaves the container's control group, whose processes are all killed when the container ends."""


def host_runner(root: str = "/") -> Runner:
    """Return what runs programs on this host, or inside another root with that root's own programs."""
    prefix = _into(root)
    scope = SCOPE if prefix == NAMESPACES and Path(root + SYSTEMD).exists() else ()

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        own = scope if how.get("finish") else ()
        how["env"] = {**ENVIRONMENT, **(how.get("env") or {})}
        how["cwd"] = how.get("cwd") or "/"
        return await runner.run((*prefix, *own, *argv), **how)

    return run


def host_follower(root: str = "/") -> Follower:
    """Return what follows programs that go on and on, on this host or inside another root."""
    prefix = _into(root)

    async def follow(argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
        return await runner.follow((*prefix, *argv), heard, env=ENVIRONMENT)

    return follow


def _into(root: str) -> tuple[str, ...]:
    """Return what has a program run inside a root."""
    if root == "/":
        return ()
    return NAMESPACES if is_running(root) else ("chroot", root)
