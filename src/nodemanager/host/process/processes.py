"""Identifies processes by more than their number, which the kernel uses again in time.

Arguments prove nothing: anybody may start a program with any of them. A number, when its process began, and
which boot that was are said by the kernel alone, and no two processes share all three.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.host.inventory.boot import BOOT_ID

_STATE, _GROUP, _SESSION, _STARTED = 0, 2, 3, 19
"""Fields of /proc/PID/stat, counted from after the name, which may contain anything."""
_GONE: Final = ("Z", "X", "x")


class Stat(NamedTuple):
    """The kernel's facts about a process."""

    state: str
    group: int
    session: int
    started: int
    """In ticks since the boot."""


class Process(NamedTuple):
    """A process of this boot that has not ended."""

    pid: int
    user: int
    stat: Stat

    @property
    def leads(self) -> bool:
        """Whether it has a session and a group of its own, as everything has that we start."""
        return self.stat.group == self.stat.session == self.pid

    @property
    def started(self) -> int:
        """When it began."""
        return self.stat.started


def boot_id() -> str:
    """Return what differs between two boots; empty where the system does not say."""
    with contextlib.suppress(OSError):
        return Path(BOOT_ID).read_text("ascii").strip()
    return ""


def parse(stat: bytes) -> Stat:
    """Return what a line of /proc/PID/stat says; raise ValueError if it is none."""
    fields = stat.rpartition(b")")[2].decode("ascii").split()
    try:
        return Stat(fields[_STATE], int(fields[_GROUP]), int(fields[_SESSION]), int(fields[_STARTED]))
    except IndexError:
        raise ValueError("this is no line of /proc/PID/stat") from None


def find(pid: int) -> Process | None:
    """Return the process of a number, if there is one."""
    folder = Path(f"/proc/{pid}")
    try:
        found = Process(pid, folder.stat().st_uid, parse((folder / "stat").read_bytes()))
    except (OSError, ValueError):
        return None
    return None if found.stat.state in _GONE else found


def same(pid: int, started: int, boot: str) -> Process | None:
    """Return the very process that had this number then, if it is still there and is ours to end."""
    if not boot or boot != boot_id():
        return None
    found = find(pid)
    ours = found is not None and found.started == started and found.leads and found.user == os.geteuid()
    return found if ours else None


def kill_group(process: Process) -> None:
    """End a process with all of its group, unless it is gone.

    It is halted first, through a descriptor that no other process can get behind: what is halted keeps
    its number, so that the group we end is its own.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        if same(process.pid, process.started, boot_id()):
            signal.pidfd_send_signal(handle, signal.SIGSTOP)
            os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
