"""Requests that a service manager refuses by name, with the same words everywhere."""

from __future__ import annotations

import re
from typing import Final

from nodemanager.host.base import NotSupported, ServiceKey, ToolFailed
from nodemanager.host.process import runner
from nodemanager.kube import hints

MAX_NAME: Final = 255
_NAME: Final = re.compile(hints.UNIT)


def is_name(name: str) -> bool:
    """Tell whether a name is one to every service manager: no option, no path, no pattern."""
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None


def no_name(key: ServiceKey) -> str:
    """Return why a service of this name cannot be managed; the schema refuses it, but older ones did not."""
    return f"cannot manage {_cut(key.name)!r}: this is not the name of a service"


def check_key(manager: str, key: ServiceKey) -> None:
    """Refuse services of users, and what is no name."""
    if key.user:
        raise NotSupported(no_users(manager, key))
    if not is_name(key.name):
        raise NotSupported(no_name(key))


def check_running(manager: str, key: ServiceKey, verb: str, *, booted: bool) -> None:
    """Refuse what `check_key` refuses, and whatever needs the manager where it does not run."""
    check_key(manager, key)
    if not booted:
        raise not_running(manager, verb, key)


def not_running(manager: str, verb: str, key: ServiceKey) -> NotSupported:
    """Return why nothing can be started in a root that is not booted."""
    return NotSupported(
        f"cannot {verb} {_cut(key.name)}: {manager} does not run in this root, so nothing can be started or"
        " stopped in it; enable what shall run when it is booted"
    )


def no_users(manager: str, key: ServiceKey) -> str:
    """Return why a service of a user cannot be managed."""
    name, user = _cut(key.name), _cut(key.user)
    return f"cannot manage {name} of {user}: {manager} has no services of users; leave user out"


def exited(verb: str, key: ServiceKey, state: str, advice: str) -> ToolFailed:
    """Return why a start is none: it did not last."""
    return ToolFailed(
        f"cannot {verb} {_cut(key.name)}: it started and exited, and is {state or 'unknown'} now; {advice}"
    )


def check(done: runner.Completed, deed: str) -> None:
    """Raise ToolFailed unless a command did `deed`, with what it said."""
    if done.returncode != 0:
        said = runner.tail(done.stderr + done.stdout) or "it said nothing"
        raise ToolFailed(f"cannot {deed}: {done.argv[0]} exited with {done.returncode}: {said}")


def _cut(name: str) -> str:
    return name[:MAX_NAME]
