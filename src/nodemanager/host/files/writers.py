"""Which process makes a temporary file: its name says so.

A name exists from the first moment on, also for links, directories and sockets, so that files of
a writing process are not confused with those of a killed one. A lock would come a moment after the file.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import time
from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.host.process import processes

UNKNOWN_SECONDS: Final = 3600.0
"""How long files of another container count as in use, as we cannot see its processes."""
_NAME: Final = re.compile(r"[0-9a-f]{12}-([0-9a-f]{1,7})-([0-9a-f]{1,16})-([0-9a-f]{1,16})")
_NAMESPACE: Final = "/proc/self/ns/pid"


class WritingProcess(NamedTuple):
    """A process, as the names of temporary files encode it."""

    pid: int
    started: int
    """When it began, in ticks since the boot; 0 = unknown on this system."""
    namespace: int
    """The namespace of its number, as a container may have its own; 0 = the system has none."""


def new_name() -> str:
    """Return a name that cannot be guessed and shows which process made it."""
    return "-".join((secrets.token_hex(6), *(f"{one:x}" for one in _own(os.getpid()))))


def in_use(name: str, changed: float) -> bool:
    """Tell whether the process that made something under such a name may still be at it.

    `changed` is when the file was last changed. What is named otherwise was left by an older version.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    writer, own = WritingProcess(*(int(one, 16) for one in found.groups())), _own(os.getpid())
    if writer.namespace != own.namespace:
        return time.time() - changed < UNKNOWN_SECONDS
    return _lives(writer, own)


@functools.cache
def _own(pid: int) -> WritingProcess:  # by its number: after a fork it is another one
    process = processes.find(pid)
    try:
        namespace = Path(_NAMESPACE).stat().st_ino
    except OSError:
        namespace = 0
    return WritingProcess(pid, process.started if process is not None else 0, namespace)


def _lives(writer: WritingProcess, own: WritingProcess) -> bool:
    try:
        os.kill(writer.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # of another user, and more is hidden from us
    if not own.started or not writer.started:
        return True  # no /proc: if another process has that number now, the next check decides
    found = processes.find(writer.pid)
    return found is not None and found.started == writer.started
