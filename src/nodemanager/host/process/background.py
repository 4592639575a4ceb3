"""Goes into the background if a script of FreeBSD's rc.d started us, which waits for that.

Such a script knows a service by its pid file, and by the name that the process has there. Under daemon(8) and
other supervisors, which begin a session of their own, we stay where we are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.native import libc

PID_FILE: Final = "/var/run/nodemanager.pid"
TITLE: Final = b"nodemanager: agent"
"""rc.subr(8) recognises our process by the first word of its title."""


def is_expected(environ: Mapping[str, str]) -> bool:
    """Tell whether a script of rc.d waits for us: its shell, which it names, is there and of our session."""
    try:
        return os.getsid(int(environ.get("RC_PID", ""))) == os.getsid(0)
    except (ValueError, OverflowError, OSError):
        return False


def enter(pid_file: Path) -> None:
    """Return in a process of its own; the one that was started ends as soon as the pid file is there."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        os._exit(0 if os.read(reading, 1) else 1)  # nothing: the other ended, and has said why
    os.close(reading)
    os.setsid()
    with contextlib.suppress(OSError):  # only FreeBSD can, and needs it
        libc.setproctitle(TITLE)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(pid_file, flags, 0o644), "w") as file:
            file.write(f"{os.getpid()}\n")
    except OSError as error:
        raise HostError(f"cannot write {pid_file}: {error.strerror}; name another with --pid-file") from error
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    os.close(nowhere)
    os.write(writing, b"!")
    os.close(writing)


@contextlib.contextmanager
def entered(pid_file: Path) -> Iterator[None]:
    """Be in the background; the pid file goes in the end, unless it is another process's by then."""
    enter(pid_file)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if pid_file.read_text().strip() == str(os.getpid()):
                pid_file.unlink()
