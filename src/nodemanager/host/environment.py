"""How programs are run for a host: in a small environment, and inside its root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nodemanager.host import runner
from nodemanager.host.base import Runner

ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
}
"""Nothing of our own environment is passed on: it may hold credentials, and it differs between a
service and a shell. The language is fixed because output is parsed."""


def host_runner(root: str = "/") -> Runner:
    """Return what runs programs on this host, or inside another root with that root's own programs."""
    prefix = () if root == "/" else ("chroot", root)

    async def run(
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float,
        max_output: int = runner.MAX_OUTPUT,
        cwd: str | None = None,
        finish: bool = False,
    ) -> runner.Completed:
        return await runner.run(
            (*prefix, *argv),
            env={**ENVIRONMENT, **(env or {})},
            stdin=stdin,
            timeout=timeout,
            max_output=max_output,
            cwd=cwd or "/",
            finish=finish,
        )

    return run
