"""The base system of FreeBSD, which no package manager upgrades."""

from __future__ import annotations

from typing import Final

from nodemanager.host.base import Runner, ToolFailed
from nodemanager.host.process.runner import Completed, tail

TIMEOUT: Final = 3600.0
NOTHING_TO_INSTALL: Final = 2
_COMMAND: Final = ("freebsd-update", "--not-running-from-cron")
_ENVIRONMENT: Final = {"PAGER": "cat"}


async def upgrade_base(run: Runner) -> bool:
    """Fetch and install what is new in the base system; tell whether there was anything."""
    fetched = await run([*_COMMAND, "fetch"], env=_ENVIRONMENT, timeout=TIMEOUT)
    if fetched.returncode != 0:
        raise _failed("fetch", fetched)
    installed = await run([*_COMMAND, "install"], env=_ENVIRONMENT, timeout=TIMEOUT)
    if installed.returncode == NOTHING_TO_INSTALL:
        return False
    if installed.returncode != 0:
        raise _failed("install", installed)
    return True


def _failed(what: str, completed: Completed) -> ToolFailed:
    said = tail(completed.stderr) or tail(completed.stdout) or "it said nothing"
    return ToolFailed(
        f"cannot {what} updates of the base system: freebsd-update ended with {completed.returncode}: {said}"
    )
