"""What a service manager refuses by name, in the same words everywhere."""

from __future__ import annotations

from nodemanager.host import runner
from nodemanager.host.base import NotSupported, ServiceKey, ToolFailed


def not_running(manager: str, verb: str, key: ServiceKey) -> NotSupported:
    """Return why nothing can be started in a root that is not booted."""
    return NotSupported(
        f"cannot {verb} {key.name}: {manager} does not run in this root, so nothing can be started or stopped"
        " in it; enable what shall run when it is booted"
    )


def no_users(manager: str, key: ServiceKey) -> str:
    """Return why a service of a user cannot be managed."""
    return f"cannot manage {key.name} of {key.user}: {manager} has no services of users; leave user out"


def exited(verb: str, key: ServiceKey, state: str, advice: str) -> ToolFailed:
    """Return why a start is none: it did not last."""
    return ToolFailed(
        f"cannot {verb} {key.name}: it started and exited, and is {state or 'unknown'} now; {advice}"
    )


def check(done: runner.Completed, deed: str) -> None:
    """Raise ToolFailed unless a command did `deed`, with what it said."""
    if done.returncode != 0:
        said = runner.tail(done.stderr + done.stdout) or "it said nothing"
        raise ToolFailed(f"cannot {deed}: {done.argv[0]} exited with {done.returncode}: {said}")
