"""The interface of a host to the agent, as small Protocols; one adapter per tool implements it.

    HostError (an OSError)
    +-- NotSupported    this host has no such tool, or the tool cannot do it; the message says what to do
    +-- Busy            another process holds a lock of the tool, and did not release it in time
    +-- ToolFailed      the tool ran and failed; the message ends with what it said

Adapters build argv and parse output in pure functions, and run programs through a `Runner` only.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Required, TypedDict, Unpack, runtime_checkable

from nodemanager.host.process.runner import Completed
from nodemanager.plan.facts import ServiceFact


class HostError(OSError):
    """The host, or a tool on it, failed to do a request."""


class NotSupported(HostError):
    """This host has no such tool, or the tool cannot do this."""


class Busy(HostError):
    """Another process holds a lock, and did not release it in time."""


class ToolFailed(HostError):
    """A tool ran and failed."""


def root_remedy(error: OSError) -> str:
    """Return what to do, as the end of a message, if only root may do what failed."""
    denied = error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0
    return "; only root may: run it with sudo" if denied else ""


class How(TypedDict, total=False):
    """How to run a program; keys that are left out have the defaults of `host.runner.run`."""

    env: Mapping[str, str] | None
    stdin: bytes
    timeout: Required[float]
    max_output: int
    cwd: str | None
    finish: bool
    """Whether only the program itself ends it, and neither a timeout nor a cancelled caller."""
    bounded: bool
    """With `finish`: whether the timeout ends it all the same."""


class Runner(Protocol):
    """`host.runner.run`, or one that runs programs inside another root."""

    async def __call__(self, argv: Sequence[str], **how: Unpack[How]) -> Completed:
        """Run a program to its end and return what it wrote, whatever its exit status."""


class Follower(Protocol):
    """`host.runner.follow`, or a function that follows programs inside another root."""

    async def __call__(self, argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
        """Run a program that goes on and on, hand over its lines, and return its exit status if it ends."""


class WantedPackage(NamedTuple):
    """A package to be installed; an empty version stands for the newest offered one."""

    name: str
    version: str = ""


class PackageManager(Protocol):
    """apt, dnf, pacman, apk, pkg: every call is one transaction, non-interactive, and waits for locks."""

    @property
    def name(self) -> str:
        """How people call it."""

    @property
    def databases(self) -> tuple[str, ...]:
        """Paths that change whenever it installs or removes something: they are watched for drift."""

    async def installed(self) -> Mapping[str, str]:
        """Return the version of every installed package by name, without a process where that is possible."""

    async def candidates(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the newest version on offer of each of these; unknown names are missing."""

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        """Return by name why some of these could not be; nothing is changed, no index is refreshed."""

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        """Install, upgrade or downgrade all of these, or none."""

    async def remove(self, names: Sequence[str]) -> None:
        """Remove these and only these; fails when something else that is installed needs one of them."""

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        """Upgrade everything that is installed, except that held packages stay at their version."""

    async def reboot_needed(self) -> str:
        """Return why the host should reboot after an upgrade, or an empty string."""


@runtime_checkable
class UpgradePlanner(Protocol):
    """A package manager that can tell what an upgrade would do."""

    async def upgrades(
        self, hold: Sequence[WantedPackage], *, security: bool
    ) -> Mapping[str, tuple[str, str]]:
        """Return the installed and the offered version of what would be upgraded, by name.

        With `security`, only of what a security repository offers. The indexes are refreshed for that.
        """


@runtime_checkable
class Substituting(Protocol):
    """A package manager that may install a substitute when it removes a package that others need."""

    async def substitutes(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return by name why some of these cannot be removed without anything else being installed."""


class ServiceKey(NamedTuple):
    """A service of the system, or of one user's own service manager."""

    name: str
    user: str = ""


class ServiceManager(Protocol):
    """systemd, OpenRC, rc.d."""

    @property
    def name(self) -> str:
        """How people call it."""

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        """Return the state of each; one that cannot be observed has an `error`."""

    async def refresh(self, user: str = "") -> None:
        """Read unit files again (daemon-reload)."""

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        """Make it start at boot, or not; return whether `refresh` is needed for the manager to notice."""

    async def set_arguments(self, key: ServiceKey, arguments: str) -> None:
        """Set its flags, where the service manager knows such a thing."""

    async def start(self, key: ServiceKey) -> None:
        """Start it, and fail unless it still runs after a moment."""

    async def stop(self, key: ServiceKey) -> None:
        """Stop it and wait until it has stopped."""

    async def restart(self, key: ServiceKey) -> None:
        """Restart it, and fail unless it still runs after a moment."""

    async def reload(self, key: ServiceKey) -> bool:
        """Reload it; restart it where it cannot reload. Return whether it was reloaded."""
