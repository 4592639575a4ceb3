"""Which boot this is, and how to ask for the next one."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from nodemanager.host.base import NotSupported, Runner

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
SYSTEMD: Final = "/run/systemd/system"
_TIMEOUT: Final = 60.0
_BOOT_TIME: Final = re.compile(r"sec = ([0-9]+)")


class Boot(Protocol):
    """The life of a host between two boots."""

    async def boot_id(self) -> str:
        """Return what differs between any two boots, and stays the same within one."""

    async def reboot(self) -> None:
        """Ask for a reboot; returns when that was accepted, not when it happens."""


class HostBoot:
    """The host we run on."""

    def __init__(self, run: Runner, *, system: str = sys.platform, root: str = "/") -> None:
        self._run = run
        self._root = Path(root)
        self._system = system

    async def boot_id(self) -> str:
        """Return the kernel's boot ID; the time of the boot on FreeBSD, which has none."""
        if not self._system.startswith("freebsd"):
            return _kernel_boot_id()
        completed = await self._run(["sysctl", "-n", "kern.boottime"], timeout=_TIMEOUT)
        return parse_boot_time(completed.check().stdout.decode("ascii", "replace"))

    async def reboot(self) -> None:
        """Ask the service manager, or what this system has instead, for a reboot."""
        argv = reboot_command(self._system, lambda path: (self._root / path.lstrip("/")).exists())
        (await self._run(argv, timeout=_TIMEOUT)).check()


def _kernel_boot_id() -> str:
    return Path(BOOT_ID).read_text("ascii").strip()


def parse_boot_time(text: str) -> str:
    """Return the seconds in what sysctl prints of kern.boottime."""
    found = _BOOT_TIME.search(text)
    if found is None:
        raise NotSupported(f"cannot tell one boot from the next: kern.boottime is {text[:80]!r}")
    return found[1]


def reboot_command(system: str, exists: Callable[[str], bool]) -> list[str]:
    """Return how to reboot: systemd, FreeBSD's shutdown, or the reboot of OpenRC and others."""
    if exists(SYSTEMD):
        return ["systemctl", "reboot"]
    if system.startswith("freebsd"):
        return ["shutdown", "-r", "now"]
    if any(exists(f"{folder}/reboot") for folder in ("/sbin", "/usr/sbin", "/bin", "/usr/bin")):
        return ["reboot"]
    raise NotSupported("cannot reboot: there is neither systemd nor a reboot program on this host")


def current_boot() -> str:
    """Return the kernel's boot ID; empty where there is none, as on FreeBSD."""
    try:
        return _kernel_boot_id()
    except OSError:
        return ""


def seconds_since_boot() -> float:
    """Return the time of a clock that cannot be set, and that goes on while the host sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
