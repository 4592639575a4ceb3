"""Whose a temporary file is: its name says which process makes it.

A name is there from the first moment on, and links, directories and sockets have one, too, so that nothing of
a process that is just writing is taken for what a killed one left. A lock would come a moment after the file.
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
"""For how long what another container makes, whose processes we cannot see, counts as in use."""
_NAME: Final = re.compile(r"[0-9a-f]{12}-([0-9a-f]{1,7})-([0-9a-f]{1,16})-([0-9a-f]{1,16})")
_NAMESPACE: Final = "/proc/self/ns/pid"


class WritingProcess(NamedTuple):
    """A process, as names of temporary files have it."""

    pid: int
    started: int
    """When it began, in ticks since the boot; 0 = the system does not say."""
    namespace: int
    """Where its number is of: a container may have its own; 0 = the system knows nothing like that."""


def new_name() -> str:
    """Return a name that nobody can foresee, and that tells who made it."""
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
        return True  # somebody else's, of which we may not be told more
    if not own.started or not writer.started:
        return True  # no /proc: whoever has that number now, it is asked again later
    found = processes.find(writer.pid)
    return found is not None and found.started == writer.started
